{{/*
The namespace of every object. config.namespace decides; the others are read so that a chart used
without it still lands somewhere sensible.
*/}}
{{- define "config-server.namespace" -}}
{{- .Values.config.namespace | default .Values.namespace | default .Release.Namespace -}}
{{- end -}}

{{/*
The selector of the Deployment and the Service. A Deployment's selector can never be changed, so
nothing may be added here: an upgrade would be refused.
*/}}
{{- define "config-server.selector" -}}
app: containerssh-config-server
{{- end -}}

{{/*
The labels of the pod. The chart's version is not among them, so that it alone never restarts the service.
*/}}
{{- define "config-server.podLabels" -}}
{{ include "config-server.selector" . }}
app.kubernetes.io/name: config-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "config-server.labels" -}}
{{ include "config-server.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/*
The selector of the controller's Deployment. The Service does not select it.
*/}}
{{- define "config-server.controllerSelector" -}}
app.kubernetes.io/name: config-server-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "config-server.controllerLabels" -}}
{{ include "config-server.controllerSelector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/*
"true" if an object of this kind and name exists and does not belong to this release: somebody made it by hand, and
it stays as it is. Call with (list . apiVersion kind name).
*/}}
{{- define "config-server.foreign" -}}
{{- $root := index . 0 -}}
{{- with lookup (index . 1) (index . 2) (include "config-server.namespace" $root) (index . 3) -}}
{{- if ne (dig "metadata" "annotations" "meta.helm.sh/release-name" "" .) $root.Release.Name -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The Secrets that the pod refers to, as JSON: name -> what for. They exist beforehand; the chart makes none.
*/}}
{{- define "config-server.secrets" -}}
{{- $secrets := dict -}}
{{- if .Values.db.host -}}{{- $_ := set $secrets "config-server-db-secret" "key password: the database user's password" -}}{{- end -}}
{{- if .Values.nas.ssh.host -}}{{- $_ := set $secrets "nas-ssh-key" "the private key for the NAS" -}}{{- end -}}
{{- if .Values.farm.ssh.user -}}{{- $_ := set $secrets "farm-ssh-key" "the private key for the farm nodes" -}}{{- end -}}
{{- if .Values.krb5.realm -}}{{- $_ := set $secrets "config-server-krb5-secret" "keys principal and password: an administrator of the realm" -}}{{- end -}}
{{- with .Values.apiToken.existingSecret -}}{{- $_ := set $secrets . "key token: what callers send as X-Internal-Token" -}}{{- end -}}
{{- toJson $secrets -}}
{{- end -}}

{{/*
The settings that are said elsewhere than under env, as JSON: name -> where.
*/}}
{{- define "config-server.governed" -}}
{{- dict
      "NAMESPACE" "set config.namespace"
      "LEDGER_LOCK" "set ledgerLock"
      "LISTEN_ADDR" "set service.targetPort"
      "STATE_DIR" "leave it out, the chart mounts a folder for it (state.persistence)"
      "NFS_SERVER" "set nfs.server"
      "NFS_USER_SHARE_PATH" "set nfs.userSharePath"
      "NAS_SSH_HOST" "set nas.ssh.host"
      "NAS_SSH_PORT" "set nas.ssh.port"
      "NAS_SSH_USER" "set nas.ssh.user"
      "NAS_SSH_KEY_PATH" "set nas.ssh.keyPath"
      "NAS_SSH_KNOWN_HOSTS" "set nas.ssh.knownHosts"
      "FARM_SSH_USER" "set farm.ssh.user"
      "FARM_SSH_KEY_PATH" "set farm.ssh.keyPath"
      "FARM_SSH_KNOWN_HOSTS" "set farm.ssh.knownHosts"
      "FARM_NODES_JSON" "set farm.ssh.nodes"
      "SUDO_ALLOWED_COMMANDS" "set security.sudoAllowedCommands"
      "DB_HOST" "set db.host"
      "DB_PORT" "set db.port"
      "DB_NAME" "set db.name"
      "DB_USER" "set db.user"
      "REDIS_HOST" "set redis.host"
      "REDIS_PORT" "set redis.port"
      "KRB5_REALM" "set krb5.realm"
      "KRB5_KDC_HOST" "set krb5.kdcHost"
      "DB_PASSWORD" "it is the key password of Secret config-server-db-secret"
      "KRB5_ADMIN_PRINCIPAL" "it is the key principal of Secret config-server-krb5-secret"
      "KRB5_ADMIN_PASSWORD" "it is the key password of Secret config-server-krb5-secret"
      "API_TOKEN" "it is the key token of the Secret that apiToken.existingSecret names"
    | toJson -}}
{{- end -}}

{{/*
"true" if the service is told to keep accounts' hashes in Secrets.
*/}}
{{- define "config-server.accountSecret" -}}
{{- has (toString .Values.env.ACCOUNT_SECRET | lower) (list "1" "t" "true") -}}
{{- end -}}

{{/*
"true" if workspaces have their homes on a volume of the service's own pod.
*/}}
{{- define "config-server.selfHomes" -}}
{{- eq (toString .Values.env.HOME_VOLUME | trim) "self" -}}
{{- end -}}

{{/*
The seconds of a number of seconds (25, 2.5) or a duration (25s, 1m30s). Call with (list name text default); an empty text
means the default, and the name is for the refusal of anything else.
*/}}
{{- define "config-server.seconds" -}}
{{- $text := index . 1 | default (index . 2) | toString | trim -}}
{{- $seconds := 0.0 -}}
{{- if regexMatch "^[0-9]*\\.?[0-9]+$" $text -}}
{{- $seconds = float64 $text -}}
{{- else if regexMatch "^([0-9]*\\.?[0-9]+(h|m|s|ms))+$" $text -}}
{{- range regexFindAll "[0-9.]+[a-z]+" $text -1 -}}
{{- $unit := get (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001) (regexFind "[a-z]+" .) -}}
{{- $seconds = addf $seconds (mulf (float64 (regexFind "[0-9.]+" .)) $unit) -}}
{{- end -}}
{{- else -}}
{{- fail (printf "%s is %q: it has to be a number of seconds or a duration such as 60s" (index . 0) $text) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}

{{/*
The plain settings of the service, as JSON: name -> text. What is empty is left out, so that the service's own default
holds.
*/}}
{{- define "config-server.settings" -}}
{{- $v := .Values -}}
{{- $nodes := $v.farm.ssh.nodes -}}
{{- if not (kindIs "string" $nodes) -}}{{- $nodes = ternary (toJson $nodes) "" (gt (len $nodes) 0) -}}{{- end -}}
{{- $sudo := $v.security.sudoAllowedCommands -}}
{{- if kindIs "slice" $sudo -}}{{- $sudo = join "," $sudo -}}{{- end -}}
{{- $s := dict
      "NAMESPACE" (include "config-server.namespace" .)
      "STATE_DIR" "/var/lib/config-server"
      "LEDGER_LOCK" $v.ledgerLock
      "NFS_SERVER" $v.nfs.server
      "NFS_USER_SHARE_PATH" $v.nfs.userSharePath
      "SUDO_ALLOWED_COMMANDS" $sudo
-}}
{{- if ne (int $v.service.targetPort) 8000 -}}
{{- $_ := set $s "LISTEN_ADDR" (printf ":%d" (int $v.service.targetPort)) -}}
{{- end -}}
{{- if $v.nas.ssh.host -}}
{{- $s = merge $s (dict "NAS_SSH_HOST" $v.nas.ssh.host "NAS_SSH_PORT" (toString (int $v.nas.ssh.port)) "NAS_SSH_USER" $v.nas.ssh.user "NAS_SSH_KEY_PATH" $v.nas.ssh.keyPath) -}}
{{- if $v.nas.ssh.knownHosts -}}{{- $_ := set $s "NAS_SSH_KNOWN_HOSTS" "/etc/config-server/nas_known_hosts" -}}{{- end -}}
{{- end -}}
{{- if $v.farm.ssh.user -}}
{{- $s = merge $s (dict "FARM_SSH_USER" $v.farm.ssh.user "FARM_SSH_KEY_PATH" $v.farm.ssh.keyPath "FARM_NODES_JSON" $nodes) -}}
{{- if $v.farm.ssh.knownHosts -}}{{- $_ := set $s "FARM_SSH_KNOWN_HOSTS" "/etc/config-server/farm_known_hosts" -}}{{- end -}}
{{- end -}}
{{- if $v.db.host -}}
{{- $s = merge $s (dict "DB_HOST" $v.db.host "DB_PORT" (toString (int $v.db.port)) "DB_USER" $v.db.user "DB_NAME" $v.db.name) -}}
{{- end -}}
{{- if $v.redis.host -}}
{{- $s = merge $s (dict "REDIS_HOST" $v.redis.host "REDIS_PORT" (toString (int $v.redis.port))) -}}
{{- end -}}
{{- if $v.krb5.realm -}}
{{- $s = merge $s (dict "KRB5_REALM" $v.krb5.realm "KRB5_KDC_HOST" $v.krb5.kdcHost) -}}
{{- end -}}
{{- $all := dict -}}
{{- range $name, $value := merge (dict) $v.env $s -}}
{{- if ne (toString $value) "" -}}{{- $_ := set $all $name (toString $value) -}}{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/*
krb5.conf for the programs that read one.
*/}}
{{- define "config-server.krb5Conf" -}}
[libdefaults]
  default_realm = {{ .Values.krb5.realm }}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  rdns = false

[realms]
  {{ .Values.krb5.realm }} = {
    kdc = {{ .Values.krb5.kdcHost }}
    {{- /* A port is the KDC's; kadmind has one of its own. */}}
    admin_server = {{ regexReplaceAll ":[0-9]+$" .Values.krb5.kdcHost "" }}
  }
{{- end -}}

{{/*
The content of the files that the pod mounts from ConfigMaps of the chart; empty if there are none.
*/}}
{{- define "config-server.mountedFiles" -}}
{{- if .Values.krb5.realm -}}{{- include "config-server.krb5Conf" . -}}{{- end -}}
{{- .Values.nas.ssh.knownHosts -}}{{- .Values.farm.ssh.knownHosts -}}
{{- end -}}
