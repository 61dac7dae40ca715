{{/* What the containers may do. */}}

{{/* The driver's container: it loads kernel modules and mounts into the node's /run/nvidia. Input: root. */}}
{{- define "nvidia-driver.securityContext" -}}
{{- if .Values.leastPrivilege.enabled -}}
privileged: false
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
  add:
    - SYS_MODULE # load and unload kernel modules
    - SYS_ADMIN # mount the driver root
    - SYS_PTRACE # see which processes of other pods hold the driver
    - MKNOD # device files
    - CHOWN
    - DAC_OVERRIDE
    - FOWNER
{{- else -}}
privileged: true
seLinuxOptions:
  level: s0
{{- end -}}
{{- end }}

{{/* How mounts below /run/nvidia travel. Kubernetes allows Bidirectional to privileged containers only. Input: root. */}}
{{- define "nvidia-driver.runPropagation" -}}
{{- ternary "HostToContainer" "Bidirectional" .Values.leastPrivilege.enabled -}}
{{- end }}

{{/* driver-evict reads one file and talks to the API server. */}}
{{- define "nvidia-driver.evictSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* The service account's token, mounted by name into the containers that need it and into no others. */}}
{{- define "nvidia-driver.tokenVolume" -}}
- name: api-token
  projected:
    defaultMode: 292 # 0444
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}
{{- end }}

{{- define "nvidia-driver.tokenMount" -}}
- {name: api-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
