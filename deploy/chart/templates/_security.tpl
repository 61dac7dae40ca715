{{/* Security contexts of the containers. */}}

{{/* The driver's container loads kernel modules and mounts into the node's /run/nvidia. Without privileges it creates a link there
     instead. docs/least-privilege.md has the reason for each line. Input: root. */}}
{{- define "nvidia-driver.securityContext" -}}
{{- if .Values.leastPrivilege.enabled -}}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  add:
    - SYS_MODULE # load and unload kernel modules
    - MKNOD # device files
    - SYS_PTRACE # see which processes of other pods hold the driver
    - DAC_READ_SEARCH # the same of processes that are not root's
    - SYSLOG # the kernel's words when it refuses a module
seccompProfile:
  type: RuntimeDefault
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}
appArmorProfile:
  type: Unconfined # the runtime's profile hides the processes of other pods, and forbids to tell the kernel where the firmware is
{{- end }}
seLinuxOptions:
  type: spc_t # as privileged containers have it: container_t may not load modules
  level: s0
{{- else -}}
privileged: true
seLinuxOptions:
  level: s0
{{- end -}}
{{- end }}

{{/* The same of AppArmor for a Kubernetes before 1.30. Input: root. */}}
{{- define "nvidia-driver.appArmorAnnotation" -}}
{{- if and .Values.leastPrivilege.enabled (not (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version)) -}}
container.apparmor.security.beta.kubernetes.io/nvidia-driver-ctr: unconfined
{{- end -}}
{{- end }}

{{/* Where the node's folder for compiled modules and driver roots is mounted. A link to a driver root has to resolve to the same folder
     on the node. Input: root. */}}
{{- define "nvidia-driver.stateMountPath" -}}
{{- if not .Values.leastPrivilege.enabled -}}
/var/lib/nvidia-driver
{{- else if .Values.hostStateDir -}}
{{- .Values.hostStateDir | clean -}}
{{- else -}}
  {{- fail "leastPrivilege.enabled needs hostStateDir: the driver root is served from the node's own storage" -}}
{{- end -}}
{{- end }}

{{/* Propagation of mounts below /run/nvidia. Kubernetes allows Bidirectional to privileged containers only. Input: root. */}}
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

{{/* The service account's token, mounted by name only into the containers that need it. */}}
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
