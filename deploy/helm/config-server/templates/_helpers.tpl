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
The plain settings of the service, as JSON: name -> text. What is empty is left out, so that the service's own default
holds; .Values.env comes last and wins.
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
