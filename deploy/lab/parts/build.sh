#!/usr/bin/env bash
# Builds the programs that Debian does not have (or has too old) once per version into
# ${XDG_CACHE_HOME:-$HOME/.cache}/config-server/bin, so that a clean clone finds them.
#
#   build.sh [etcd] [kube-apiserver] [kwok] [helm] [kubectl] [prometheus-operator-crds] [kube-controller-manager] ...
#
# Each program is written as NAME-VERSION under a temporary name first and renamed when whole,
# so that an interrupted build never leaves a broken program behind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/config-server/bin
mkdir -p "$cache"

version_of() { # module directory, module path
  (cd "$here/$1" && go list -m -f '{{.Version}}' "$2")
}

build() { # name, directory, version, package, extra flags...
  local name=$1 dir=$2 version=$3 package=$4
  shift 4
  local target=$cache/$name-$version
  if [ -x "$target" ]; then
    echo "parts: $name $version is built"
    return
  fi
  echo "parts: building $name $version (once; a cold machine needs minutes for it) ..."
  local begin=$SECONDS
  (cd "$here/$dir" && CGO_ENABLED=0 go build -trimpath "$@" -o "$target.$$" "$package")
  mv "$target.$$" "$target"
  echo "parts: built $name $version in $((SECONDS - begin)) s"
}

# crds copies the definitions of ServiceMonitor and PrometheusRule out of the module that brings them; go checks the
# module against go.sum.
crds() {
  local module=github.com/prometheus-operator/prometheus-operator version source target kind
  version=$(version_of prometheus-operator "$module")
  target=$cache/prometheus-operator-crds-$version
  if [ -d "$target" ]; then
    echo "parts: prometheus-operator-crds $version are there"
    return
  fi
  source=$(cd "$here/prometheus-operator" && go mod download "$module" && go list -m -f '{{.Dir}}' "$module")
  mkdir "$target.$$"
  for kind in servicemonitors prometheusrules; do
    install -m 644 "$source/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" "$target.$$/$kind.yaml"
  done
  mv -T "$target.$$" "$target" || { rm -r "$target.$$" && [ -d "$target" ]; } # another run was faster
  echo "parts: prometheus-operator-crds $version are there now"
}

for name in "${@:-}"; do
  case "$name" in
    "") ;;
    etcd) build etcd etcd "$(version_of etcd go.etcd.io/etcd/server/v3)" . -ldflags=-s ;;
    helm)
      # Without these four, helm takes every cluster that it does not ask for Kubernetes 1.20.
      rendered=helm.sh/helm/v3/pkg
      build helm helm "$(version_of helm helm.sh/helm/v3)" helm.sh/helm/v3/cmd/helm \
        -ldflags="-s -X $rendered/chartutil.k8sVersionMajor=1 -X $rendered/chartutil.k8sVersionMinor=35 -X $rendered/lint/rules.k8sVersionMajor=1 -X $rendered/lint/rules.k8sVersionMinor=35"
      ;;
    kwok) build kwok kwok "$(version_of kwok sigs.k8s.io/kwok)" sigs.k8s.io/kwok/cmd/kwok -ldflags=-s ;;
    prometheus-operator-crds) crds ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubelet | kube-proxy | kubectl)
      version=$(version_of kubernetes k8s.io/kubernetes)
      build "$name" kubernetes "$version" "k8s.io/kubernetes/cmd/$name" \
        -ldflags="-s -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=35"
      ;;
    *) echo "parts: no recipe for '$name'" >&2; exit 2 ;;
  esac
done
