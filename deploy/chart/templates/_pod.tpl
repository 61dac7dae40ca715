{{/* The driver's pod. Input everywhere: dict root, pool. */}}

{{- define "nvidia-driver.podSpec" -}}
{{- $v := .root.Values -}}
{{- $token := include "nvidia-driver.needsToken" .root -}}
hostPID: true # names the processes that hold a GPU; the modules and headers of the node are seen through its process 1
{{- if eq $v.fabric.imex "service" }}
{{- /* nvidia-imex binds the address of its list that an interface has, and gives up without one: BIND_INTERFACE_IP in
       https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/config.html. A pod's network has none of a node's addresses. */}}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
enableServiceLinks: false
automountServiceAccountToken: false
{{- if or $token $v.serviceAccount.create $v.serviceAccount.name }}
serviceAccountName: {{ include "nvidia-driver.serviceAccount" .root }}
{{- end }}
priorityClassName: {{ $v.priorityClassName | quote }}
terminationGracePeriodSeconds: {{ int $v.terminationGracePeriodSeconds }}
{{- with include "nvidia-driver.pullSecrets" .root | fromJsonArray }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .pool.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- include "nvidia-driver.affinity" . | nindent 2 }}
{{- with include "nvidia-driver.tolerations" .root | fromYamlArray }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or $v.initContainers $v.evictGPUPods }}
initContainers:
  {{- with $v.initContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if $v.evictGPUPods }}
  {{- include "nvidia-driver.evictContainer" . | nindent 2 }}
  {{- end }}
{{- end }}
containers:
  - name: nvidia-driver-ctr
    image: {{ .pool.ref | quote }}
    imagePullPolicy: {{ $v.image.pullPolicy }}
    command: [nvidia-driver]
    args: {{ prepend $v.extraArgs "init" | toJson }}
    env:
      {{- include "nvidia-driver.env" . | nindent 6 }}
    {{- with $v.secretEnv }}
    envFrom:
      - secretRef: {name: {{ . | quote }}}
    {{- end }}
    {{- if $v.metrics.enabled }}
    ports:
      - {name: metrics, containerPort: {{ int $v.metrics.port }}, protocol: TCP}
    {{- end }}
    {{- include "nvidia-driver.probes" .root | nindent 4 }}
    resources:
      {{- toYaml $v.resources | nindent 6 }}
    securityContext:
      {{- include "nvidia-driver.securityContext" .root | nindent 6 }}
    terminationMessagePath: /run/driver-termination-log # not below /dev, which is the node's own: the runtime would leave a file there
    terminationMessagePolicy: FallbackToLogsOnError
    volumeMounts:
      {{- include "nvidia-driver.mounts" . | nindent 6 }}
volumes:
  {{- include "nvidia-driver.volumes" . | nindent 2 }}
{{- end }}

{{/* No probe ends a pod that compiles, or that waits for another container or a free GPU, however long it takes; a probe ends only a
     pod that does not answer. A failed start ends by itself. `probe startup` is for the GPU Operator, which waits for the marker that
     the probe writes. */}}
{{- define "nvidia-driver.probes" -}}
{{- $timeout := int .Values.probes.timeoutSeconds -}}
startupProbe:
  exec: {command: [nvidia-driver, probe, live]}
  periodSeconds: 5
  failureThreshold: 36
  timeoutSeconds: {{ $timeout }}
livenessProbe:
  exec: {command: [nvidia-driver, probe, live]}
  periodSeconds: 30
  failureThreshold: 4
  timeoutSeconds: {{ $timeout }}
readinessProbe:
  exec: {command: [nvidia-driver, probe, ready]}
  periodSeconds: {{ int .Values.probes.readyPeriodSeconds }}
  failureThreshold: 1
  timeoutSeconds: {{ $timeout }}
{{- end }}

{{/* Runs beside the driver, started before it and stopped after it. Its command is a name of `nvidia-driver evict` that images of all
     versions have. */}}
{{- define "nvidia-driver.evictContainer" -}}
{{- $v := .root.Values -}}
- name: driver-evict
  image: {{ .pool.ref | quote }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  command: [/usr/bin/driver-evict]
  restartPolicy: Always
  env:
    {{- include "nvidia-driver.identityEnv" . | nindent 4 }}
    - {name: DRIVER_EVICT_TIMEOUT, value: {{ $v.evict.timeout | quote }}}
    - {name: DRIVER_EVICT_RETRY_AFTER, value: {{ $v.evict.retryAfter | quote }}}
    - {name: DRIVER_EVICT_GRACE_PERIOD, value: {{ int $v.evict.gracePeriodSeconds | quote }}}
    - {name: DRIVER_EVICT_FORCE, value: {{ $v.evict.force | quote }}}
    - {name: DRIVER_EVICT_DELETE_EMPTYDIR_DATA, value: {{ $v.evict.deleteEmptyDir | quote }}}
    - {name: DRIVER_EVICT_DAEMONSETS, value: {{ $v.evict.daemonSets | quote }}}
    - {name: DRIVER_EVICT_RESOURCE_CLAIMS, value: {{ $v.evict.resourceClaims | quote }}}
  resources:
    {{- toYaml $v.evict.resources | nindent 4 }}
  securityContext:
    {{- include "nvidia-driver.evictSecurityContext" .root | nindent 4 }}
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
    # With propagation: without it, the container's copy of the old driver root would stay mounted.
    - {name: run-nvidia, mountPath: /run/nvidia, readOnly: true, mountPropagation: HostToContainer}
    {{- include "nvidia-driver.tokenMount" .root | nindent 4 }}
{{- end }}

{{/* Where the pods of a pool run that are not the driver's, and what they need to pull its images. Input: dict root, pool. */}}
{{- define "nvidia-driver.besides" -}}
enableServiceLinks: false
automountServiceAccountToken: false
terminationGracePeriodSeconds: 5
{{- with include "nvidia-driver.pullSecrets" .root | fromJsonArray }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .pool.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (include "nvidia-driver.affinity" . | fromYaml).nodeAffinity }}
affinity:
  nodeAffinity:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- with include "nvidia-driver.tolerations" .root | fromYamlArray }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A container that does nothing and stays: it does not see the node's /run/nvidia, in which wait-ready looks for a driver. Image and
     name follow. Input: root. */}}
{{- define "nvidia-driver.stays" -}}
command: [nvidia-driver, wait-ready, --timeout, 87600h]
imagePullPolicy: {{ .Values.image.pullPolicy }}
resources:
  requests: {cpu: 10m, memory: 32Mi}
  limits: {memory: 128Mi}
securityContext:
  {{- include "nvidia-driver.evictSecurityContext" . | nindent 2 }}
{{- end }}

{{/* The tolerations of all pods on nodes; startup taints and that of the rule are tolerated whatever their effects. Input: root. */}}
{{- define "nvidia-driver.tolerations" -}}
{{- $all := .Values.tolerations -}}
{{- if .Values.nodeReadinessRule.enabled -}}
{{- $all = append $all (dict "key" "readiness.k8s.io/nvidia-driver" "operator" "Exists") -}}
{{- end -}}
{{- range .Values.startupTaints -}}
{{- $all = append $all (dict "key" . "operator" "Exists") -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}

{{/* Nodes with a GPU that are in the pool, and never two driver pods on one node. This includes pods that are Terminating, and pods
     of other releases, other namespaces and the GPU Operator. Input: dict root, pool. */}}
{{- define "nvidia-driver.affinity" -}}
{{- $v := .root.Values -}}
{{- $affinity := deepCopy $v.affinity -}}
{{- if not $affinity.nodeAffinity -}}
  {{- /* The GPU Operator's labels for nodes whose GPUs virtual machines get, and whose system has a driver. */ -}}
  {{- $all := list
        (dict "key" "nvidia.com/gpu.workload.config" "operator" "NotIn" "values" (list "vm-passthrough" "vm-vgpu"))
        (dict "key" "nvidia.com/gpu.deploy.driver" "operator" "NotIn" "values" (list "pre-installed")) -}}
  {{- $present := list -}}
  {{- if not $v.managedDrivers -}}
    {{- /* Labels of GKE and AKS for nodes that get their driver. nodeadm of EKS sets gpu.present whether its image has one or not. */ -}}
    {{- $all = concat $all (list
          (dict "key" "cloud.google.com/gke-gpu-driver-version" "operator" "DoesNotExist")
          (dict "key" "kubernetes.azure.com/dcgm-exporter" "operator" "NotIn" "values" (list "enabled"))) -}}
    {{- $present = list
          (dict "key" "eks.amazonaws.com/nodegroup" "operator" "DoesNotExist")
          (dict "key" "karpenter.k8s.aws/ec2nodeclass" "operator" "DoesNotExist") -}}
  {{- end -}}
  {{- $terms := list (dict "matchExpressions" $all) -}}
  {{- if $v.nfd.enabled -}}
    {{- $terms = list -}}
    {{- range $label := list "feature.node.kubernetes.io/pci-10de.present" "feature.node.kubernetes.io/pci-0302_10de.present" "feature.node.kubernetes.io/pci-0300_10de.present" "nvidia.com/gpu.present" -}}
      {{- $more := ternary $present list (eq $label "nvidia.com/gpu.present") -}}
      {{- $terms = append $terms (dict "matchExpressions" (concat (list (dict "key" $label "operator" "In" "values" (list "true"))) $all $more)) -}}
    {{- end -}}
  {{- end -}}
  {{- $_ := set $affinity "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) -}}
{{- end -}}
{{- with .pool.anyOf -}}
  {{- /* Each term, with the labels of each set. */ -}}
  {{- $sets := . -}}
  {{- $required := $affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution | default (dict "nodeSelectorTerms" (list dict)) -}}
  {{- $terms := list -}}
  {{- range $term := $required.nodeSelectorTerms -}}
    {{- range $set := $sets -}}
      {{- $expressions := $term.matchExpressions | default list -}}
      {{- range $key, $value := $set -}}
        {{- $expressions = append $expressions (dict "key" $key "operator" "In" "values" (list $value)) -}}
      {{- end -}}
      {{- $terms = append $terms (set (deepCopy $term) "matchExpressions" $expressions) -}}
    {{- end -}}
  {{- end -}}
  {{- $_ := set $affinity.nodeAffinity "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- end -}}
{{- $alone := dict
      "topologyKey" "kubernetes.io/hostname"
      "namespaceSelector" dict
      "labelSelector" (dict "matchExpressions" (list (dict "key" "app.kubernetes.io/component" "operator" "In" "values" (list "nvidia-driver" "nvidia-vgpu-manager")))) -}}
{{- $anti := $affinity.podAntiAffinity | default dict -}}
{{- $_ := set $anti "requiredDuringSchedulingIgnoredDuringExecution" (append ($anti.requiredDuringSchedulingIgnoredDuringExecution | default list) $alone) -}}
{{- $_ := set $affinity "podAntiAffinity" $anti -}}
{{- toYaml $affinity -}}
{{- end }}
