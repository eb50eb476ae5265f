package v1alpha1

//go:generate go tool controller-gen object crd paths=. output:crd:dir=../../../deploy/helm/config-server/crds
