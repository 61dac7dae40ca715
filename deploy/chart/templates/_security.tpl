{{/* Security contexts of the containers. */}}

{{/* The driver's container loads kernel modules and mounts into the node's /run/nvidia. */}}
{{- define "nvidia-driver.securityContext" -}}
privileged: true
seLinuxOptions:
  level: s0
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
