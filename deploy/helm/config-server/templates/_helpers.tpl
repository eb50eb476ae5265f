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

{{- define "config-server.labels" -}}
{{ include "config-server.selector" . }}
app.kubernetes.io/name: config-server
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
