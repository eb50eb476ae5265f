{{/*
What the service's container and that of the test have in common.
*/}}
{{- define "config-server.container" -}}
{{- $v := .Values -}}
{{- $root := eq (int $v.security.runAsUser) 0 -}}
image: "{{ $v.image.repository }}:{{ $v.image.tag }}"
imagePullPolicy: {{ $v.image.pullPolicy }}
env:
  {{- range $name, $value := include "config-server.settings" . | fromJson }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- if $v.db.host }}
  - name: DB_PASSWORD
    valueFrom:
      secretKeyRef:
        name: config-server-db-secret
        key: password
  {{- end }}
  {{- if $v.krb5.realm }}
  - name: KRB5_ADMIN_PRINCIPAL
    valueFrom:
      secretKeyRef:
        name: config-server-krb5-secret
        key: principal
  - name: KRB5_ADMIN_PASSWORD
    valueFrom:
      secretKeyRef:
        name: config-server-krb5-secret
        key: password
  {{- end }}
  {{- with $v.apiToken.existingSecret }}
  - name: API_TOKEN
    valueFrom:
      secretKeyRef:
        name: {{ . }}
        key: token
  {{- end }}
  {{- if eq (include "config-server.selfHomes" .) "true" }}
  {{- /* By these the service knows its own pod, unless they are said otherwise. */}}
  {{- range $name, $field := dict "POD_NAME" "metadata.name" "POD_IP" "status.podIP" }}
  {{- if not (get $v.env $name) }}
  - name: {{ $name }}
    valueFrom:
      fieldRef:
        fieldPath: {{ $field }}
  {{- end }}
  {{- end }}
  {{- end }}
  {{- with $v.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml $v.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  privileged: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
    {{- if $root }}
    # To replace files on the share that belong to somebody else, and leave them their owner and mode.
    add: [CHOWN, DAC_OVERRIDE, FOWNER]
    {{- end }}
volumeMounts:
  - name: kube-share
    mountPath: /kube_share
  - name: state
    mountPath: /var/lib/config-server
  - name: tmp
    mountPath: /tmp
  {{- if $v.imageStore.enabled }}
  - name: image-store
    mountPath: /image-store
  {{- end }}
  {{- if $v.nas.ssh.host }}
  - name: nas-ssh-key
    mountPath: /etc/nas-ssh
    readOnly: true
  {{- end }}
  {{- if $v.farm.ssh.user }}
  - name: farm-ssh-key
    mountPath: /etc/farm-ssh
    readOnly: true
  {{- end }}
  {{- if or $v.nas.ssh.knownHosts $v.farm.ssh.knownHosts }}
  - name: known-hosts
    mountPath: /etc/config-server
    readOnly: true
  {{- end }}
  {{- if $v.krb5.realm }}
  - name: krb5-conf
    mountPath: /etc/krb5.conf
    subPath: krb5.conf
    readOnly: true
  {{- end }}
  {{- if $v.docker.socket }}
  - name: docker-socket
    mountPath: /var/run/docker.sock
  {{- end }}
  {{- with $v.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/*
What the service's pod and that of the test have in common.
*/}}
{{- define "config-server.pod" -}}
{{- $v := .Values -}}
serviceAccountName: config-server
enableServiceLinks: false
{{- with $v.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsUser: {{ int $v.security.runAsUser }}
  runAsGroup: {{ int $v.security.runAsGroup }}
  {{- if ne (int $v.security.runAsUser) 0 }}
  runAsNonRoot: true
  # Lets the process read the mounted keys, which belong to root otherwise.
  fsGroup: {{ int $v.security.runAsGroup }}
  {{- end }}
  {{- with $v.security.supplementalGroups }}
  supplementalGroups:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
volumes:
  - name: kube-share
    {{- if $v.nfs.kubeShareHostPath }}
    hostPath:
      path: {{ $v.nfs.kubeShareHostPath | quote }}
      # A folder that is not there is not made: accounts would be written to a node's own disk.
      type: Directory
    {{- else }}
    nfs:
      server: {{ $v.nfs.server | quote }}
      path: {{ $v.nfs.kubeSharePath | quote }}
    {{- end }}
  - name: state
    {{- if $v.state.persistence.enabled }}
    persistentVolumeClaim:
      claimName: {{ $v.state.persistence.existingClaim | default (printf "%s-state" .Release.Name) }}
    {{- else }}
    emptyDir: {}
    {{- end }}
  - name: tmp
    emptyDir:
      # Tickets and keytabs on their way pass through here; they never reach a disk.
      medium: Memory
      sizeLimit: 16Mi
  {{- if $v.imageStore.enabled }}
  - name: image-store
    persistentVolumeClaim:
      claimName: {{ $v.imageStore.claimName }}
  {{- end }}
  {{- if $v.nas.ssh.host }}
  - name: nas-ssh-key
    secret:
      secretName: nas-ssh-key
      defaultMode: 0400
  {{- end }}
  {{- if $v.farm.ssh.user }}
  - name: farm-ssh-key
    secret:
      secretName: farm-ssh-key
      defaultMode: 0400
  {{- end }}
  {{- if or $v.nas.ssh.knownHosts $v.farm.ssh.knownHosts }}
  - name: known-hosts
    configMap:
      name: {{ .Release.Name }}-known-hosts
  {{- end }}
  {{- if $v.krb5.realm }}
  - name: krb5-conf
    configMap:
      name: krb5-conf
  {{- end }}
  {{- with $v.docker.socket }}
  - name: docker-socket
    hostPath:
      path: {{ . }}
      type: Socket
  {{- end }}
  {{- with $v.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $v.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
