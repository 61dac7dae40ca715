{{/* Environment of the driver's container. Input everywhere: dict root, pool. */}}

{{/* The container's list. A variable of `env` replaces the chart's: server-side apply refuses a duplicate name. */}}
{{- define "nvidia-driver.env" -}}
{{- $v := .root.Values -}}
{{- $env := include "nvidia-driver.ownEnv" . | fromYamlArray -}}
{{- $taken := list -}}
{{- range $v.env -}}{{- $taken = append $taken .name -}}{{- end -}}
{{- $kept := list -}}
{{- range $env -}}{{- if not (has .name $taken) -}}{{- $kept = append $kept . -}}{{- end -}}{{- end -}}
{{- concat $kept $v.env | toYaml -}}
{{- end }}

{{- define "nvidia-driver.ownEnv" -}}
{{- $v := .root.Values -}}
{{ include "nvidia-driver.identityEnv" . }}
- {name: DRIVER_IMAGE, value: {{ .pool.ref | quote }}}
- {name: DRIVER_CONFIG_DIGEST, value: {{ include "nvidia-driver.configDigest" . | quote }}}
{{- if ne .pool.modules "own" }}
- {name: DRIVER_MODULES, value: {{ .pool.modules }}}
{{- end }}
{{- with .pool.moduleImages }}
{{- $folders := list }}
{{- range $i, $_ := . }}{{ $folders = append $folders (printf "/run/module-images/%d" $i) }}{{ end }}
- {name: DRIVER_MODULE_IMAGE, value: {{ join "," $folders | quote }}}
{{- end }}
- {name: KERNEL_MODULE_TYPE, value: {{ .pool.kernelModuleType | quote }}}
- {name: DRIVER_GRACE, value: {{ include "nvidia-driver.grace" .root | quote }}}
- {name: DRIVER_LOCK_TIMEOUT, value: {{ $v.lockTimeout | quote }}}
- {name: DRIVER_TERMINATION_LOG, value: /run/driver-termination-log}
- {name: DRIVER_PREFLIGHT_ON_FAILURE, value: {{ $v.preflight.onFailure }}}
{{- if $v.acceptLicense }}
- {name: ACCEPT_LICENSE, value: "true"}
{{- end }}
{{- if not $v.fetchHeaders }}
- {name: DRIVER_FETCH_HEADERS, value: "false"}
{{- end }}
{{- if $v.rdma.enabled }}
- {name: GPU_DIRECT_RDMA_ENABLED, value: "true"}
- {name: USE_HOST_MOFED, value: {{ $v.rdma.useHostMofed | quote }}}
{{- end }}
{{- if .pool.gds }}
- {name: GDS_ENABLED, value: "true"}
{{- end }}
{{- if .pool.gdrcopy }}
- {name: GDRCOPY_ENABLED, value: "true"}
{{- end }}
{{- if ne $v.fabric.manage "auto" }}
- {name: DRIVER_FABRIC, value: {{ $v.fabric.manage }}}
{{- end }}
{{- if ne ($v.fabric.mode | toString) "" }}{{/* a number, or the same as text */}}
- {name: FABRIC_MODE, value: {{ $v.fabric.mode | toString | quote }}}
{{- end }}
{{- range $key, $value := $v.fabric.settings }}
{{- /* JSON knows one kind of number. */}}
{{- if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end }}
- {name: NVFM_CONFIG_{{ $key }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- if ne $v.fabric.imex "none" }}
- {name: DRIVER_IMEX, value: {{ $v.fabric.imex }}}
{{- end }}
{{- if ne $v.vgpu.licensing.state "warn" }}
- {name: DRIVER_VGPU_LICENCE, value: {{ $v.vgpu.licensing.state }}}
{{- end }}
{{- if $v.moduleSigning.secretName }}
- {name: DRIVER_MODULE_SIGNING_KEY, value: {{ printf "/etc/nvidia-driver/module-signing/%s" $v.moduleSigning.key | quote }}}
{{- with $v.moduleSigning.cert }}
- {name: DRIVER_MODULE_SIGNING_CERT, value: {{ printf "/etc/nvidia-driver/module-signing/%s" . | quote }}}
{{- end }}
{{- with $v.moduleSigning.passphrase }}
- {name: DRIVER_MODULE_SIGNING_PASSPHRASE_FILE, value: {{ printf "/etc/nvidia-driver/module-signing/%s" . | quote }}}
{{- end }}
{{- end }}
{{- if $v.metrics.enabled }}
- {name: DRIVER_METRICS_ADDR, value: {{ printf ":%d" (int $v.metrics.port) | quote }}}
- {name: DRIVER_GPU_METRICS_EVERY, value: {{ $v.metrics.gpuEvery | toString | quote }}}
{{- end }}
{{- if $v.events }}
- {name: DRIVER_EVENTS, value: "true"}
{{- end }}
{{- if $v.nodeCondition }}
- {name: DRIVER_NODE_CONDITION, value: "true"}
{{- end }}
{{- with $v.startupTaints }}
- {name: DRIVER_STARTUP_TAINT, value: {{ join "," . | quote }}}
{{- end }}
{{- if or $v.safeLoad $v.evictGPUPods }}
- {name: DRIVER_SAFE_LOAD, value: "true"}
{{- end }}
{{- range $name, $key := dict "HTTP_PROXY" "httpProxy" "HTTPS_PROXY" "httpsProxy" "NO_PROXY" "noProxy" }}
{{- with get $v.proxies $key }}
{{- $value := join "," . }}{{/* noProxy may be a list */}}
- {name: {{ $name }}, value: {{ $value | quote }}}
- {name: {{ lower $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/* The identity of a container: its pod and node. */}}
{{- define "nvidia-driver.identityEnv" -}}
- {name: NODE_NAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}
- {name: POD_NAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}}
- {name: POD_UID, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.uid}}}
{{- end }}

{{/* How long a stop may take: less than the pod's grace period. With eviction the next pod waits until the GPUs are free, and the
     node is cordoned meanwhile, so an old pod must hand over soon. Input: root. */}}
{{- define "nvidia-driver.grace" -}}
{{- $longest := sub (int .Values.terminationGracePeriodSeconds) 20 -}}
{{- printf "%ds" (ternary (min $longest 25) $longest .Values.evictGPUPods) -}}
{{- end }}

{{/* A digest of everything that the driver on the node depends on, and of nothing else. If it is unchanged, the GPU Operator's
     driver manager leaves the driver loaded. Labels, tolerations and the like are not part of it. */}}
{{- define "nvidia-driver.configDigest" -}}
{{- $v := .root.Values -}}
{{- $facts := list .pool.ref .pool.kernelModuleType .pool.moduleParameters $v.rdma $v.moduleSigning $v.env $v.secretEnv $v.extraArgs -}}
{{- if ne $v.fabric.imex "none" }}{{ $facts = append $facts "imex" }}{{ end -}}
{{- if ne .pool.modules "own" }}{{ $facts = append $facts .pool.modules }}{{ end -}}
{{- with .pool.moduleImages }}{{ $facts = append $facts . }}{{ end -}}
{{- if .pool.gds }}{{ $facts = append $facts "gds" }}{{ end -}}
{{- if .pool.gdrcopy }}{{ $facts = append $facts "gdrcopy" }}{{ end -}}
{{- $facts | toJson | sha256sum -}}
{{- end }}
