{{/* Pools: groups of nodes, one DaemonSet each. Without `pools` there is one pool, without a name. */}}

{{/* All pools, completed and checked; JSON: {"pools": [...], "warnings": [...]}. */}}
{{- define "nvidia-driver.pools" -}}
{{- include "nvidia-driver.foreign" . -}}
{{- $operator := ternary .Values.driver dict (kindIs "map" .Values.driver) -}}
{{- include "nvidia-driver.quoted" (dict "driver" .Values.driver "driver.version" $operator.version "image.tag" .Values.image.tag) -}}
{{- if not (include "nvidia-driver.repository" .) -}}
  {{- fail "image.repository is missing: registry and path of the driver images that driver-build pushed, without a tag" -}}
{{- end -}}
{{- include "nvidia-driver.checks" . -}}
{{- $root := . -}}
{{- $names := list -}}
{{- range .Values.pools -}}
  {{- if has .name $names -}}{{- fail (printf "pools: the name %q is there twice" .name) -}}{{- end -}}
  {{- $names = append $names .name -}}
{{- end -}}
{{- range $name := keys .Values.poolOverrides | sortAlpha -}}
  {{- if not (has $name $names) -}}
    {{- fail (printf "poolOverrides: there is no pool %q; `pools` has: %s" $name (join ", " $names | default "none")) -}}
  {{- end -}}
{{- end -}}
{{- $pools := list -}}
{{- $warnings := list -}}
{{- range $given := .Values.pools | default (list dict) -}}
  {{- $own := deepCopy $given -}}
  {{- if $own.name -}}{{- $own = mustMergeOverwrite $own (deepCopy (get $root.Values.poolOverrides $own.name | default dict)) -}}{{- end -}}
  {{- $pool := include "nvidia-driver.pool" (dict "root" $root "own" $own) | fromJson -}}
  {{- $pools = append $pools $pool -}}
  {{- $warnings = concat $warnings $pool.warnings -}}
{{- end -}}
{{- include "nvidia-driver.checkSubscription" (dict "root" $root "pools" $pools) -}}
{{- if and (gt (len $pools) 1) .Values.image.digest -}}
  {{- fail "image.digest is one image, and pools have one each: use pools[].digest" -}}
{{- end -}}
{{- $warnings = concat $warnings (include "nvidia-driver.overlaps" $pools | fromJsonArray) -}}
{{- dict "pools" $pools "warnings" $warnings | toJson -}}
{{- end }}

{{/* Fails if a version is a number, in which YAML has left out the 0 at its end: 535.10 is 535.1. Input: dict of versions by their names. */}}
{{- define "nvidia-driver.quoted" -}}
{{- range $at, $version := . -}}
  {{- if and (kindIs "float64" $version) (contains "." (toString $version)) -}}
    {{- fail (printf "%s: %v is a number, and YAML leaves out a 0 at the end of one: put the version in quotes" $at $version) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* One pool with everything that its DaemonSet needs; JSON. Input: dict root, own (its entry in the values). */}}
{{- define "nvidia-driver.pool" -}}
{{- $v := .root.Values -}}
{{- $own := .own -}}
{{- $pool := dict "name" ($own.name | default "") -}}
{{- $at := ternary (printf "pool %q" $pool.name) "image" (ne $pool.name "") -}}
{{- include "nvidia-driver.quoted" (dict (printf "%s: driver" $at) $own.driver (printf "%s: tag" $at) $own.tag) -}}
{{- $_ := set $pool "daemonSet" (include "nvidia-driver.fullname" .root) -}}
{{- if $pool.name -}}{{- $_ := set $pool "daemonSet" (printf "%s-%s" $pool.daemonSet $pool.name) -}}{{- end -}}
{{- $_ := set $pool "tag" ($own.tag | default "") -}}
{{- $_ := set $pool "digest" ($own.digest | default $v.image.digest) -}}
{{- $_ := set $pool "ownDriver" (not (empty $own.driver)) -}}
{{- range $key, $all := dict "driver" (include "nvidia-driver.version" .root) "os" $v.os "kernel" $v.kernel -}}
  {{- /* The values of the other pools do not apply to a pool with its own tag. */ -}}
  {{- $_ := set $pool $key (ternary (get $own $key) (get $own $key | default $all) (ne $pool.tag "") | default "" | toString) -}}
{{- end -}}
{{- $_ := set $pool "precompiled" (ternary $own.precompiled $v.precompiled.enabled (hasKey $own "precompiled")) -}}
{{- range $key := list "gds" "gdrcopy" -}}
  {{- $_ := set $pool $key (ternary (get $own $key) (get $v $key).enabled (hasKey $own $key)) -}}
{{- end -}}
{{- $_ := set $pool "modules" ($own.modules | default $v.modules) -}}
{{- $moduleImages := ternary $own.moduleImages $v.moduleImages (hasKey $own "moduleImages") -}}
{{- $_ := set $pool "moduleImages" (include "nvidia-driver.mirroredAll" (dict "root" .root "references" $moduleImages) | fromJsonArray) -}}
{{- $_ := set $pool "kernelModuleType" ($own.kernelModuleType | default $v.kernelModuleType) -}}
{{- $_ := set $pool "moduleParameters" (mustMergeOverwrite (deepCopy $v.moduleParameters) (deepCopy ($own.moduleParameters | default dict))) -}}
{{- $pool = mustMergeOverwrite $pool (include "nvidia-driver.image" (dict "root" .root "pool" $pool "at" $at) | fromJson) -}}
{{- include "nvidia-driver.requires" (dict "root" .root "own" $own "pool" $pool "at" $at) -}}
{{- $selector := mustMergeOverwrite (deepCopy $v.nodeSelector) (deepCopy ($own.nodeSelector | default dict)) -}}
{{- if and $pool.precompiled $pool.kernel $v.precompiled.selectKernel -}}
  {{- $label := "feature.node.kubernetes.io/kernel-version.full" -}}
  {{- $kernel := include "nvidia-driver.kernelTag" $pool.kernel -}}
  {{- if gt (len $kernel) 63 -}}
    {{- fail (printf "%s: the kernel %s is too long for a label of a node: set precompiled.selectKernel=false and a nodeSelector of your own" $at $kernel) -}}
  {{- end -}}
  {{- $chosen := get $selector $label | default $kernel -}}
  {{- if ne $chosen $kernel -}}
    {{- fail (printf "%s: nodeSelector asks for nodes with kernel %s, the image is for %s" $at $chosen $kernel) -}}
  {{- end -}}
  {{- $_ := set $selector $label $kernel -}}
{{- end -}}
{{- $_ := set $pool "nodeSelector" $selector -}}
{{- $_ := set $pool "anyOf" ($own.anyOf | default list) -}}
{{- toJson $pool -}}
{{- end }}

{{/* Fails if all nodes that some labels choose are in two pools, and warns if some may be; JSON list of warnings. Selectors are certainly
     disjoint if they require different values of one label. Input: list of pools. */}}
{{- define "nvidia-driver.overlaps" -}}
{{- $warnings := list -}}
{{- $pools := . -}}
{{- range $i, $a := $pools -}}
  {{- range $b := slice $pools (int (add $i 1)) -}}
    {{- $overlap := false -}}
    {{- range $one := include "nvidia-driver.selectors" $a | fromJsonArray -}}
    {{- range $other := include "nvidia-driver.selectors" $b | fromJsonArray -}}
      {{- $disjoint := false -}}
      {{- $both := 0 -}}
      {{- range $key, $value := $one -}}
        {{- if hasKey $other $key -}}
          {{- if eq (get $other $key) $value -}}{{- $both = int (add $both 1) -}}{{- else -}}{{- $disjoint = true -}}{{- end -}}
        {{- end -}}
      {{- end -}}
      {{- if $disjoint -}}
      {{- else if or (eq $both (len $one)) (eq $both (len $other)) -}}
        {{- fail (printf "pools %q and %q choose the same nodes: give them nodeSelectors with different values of one label" $a.name $b.name) -}}
      {{- else -}}
        {{- $overlap = true -}}
      {{- end -}}
    {{- end -}}
    {{- end -}}
    {{- if $overlap -}}
      {{- $warnings = append $warnings (printf "pools %q and %q: a node with the labels of both would get two driver pods, one of which stays Pending" $a.name $b.name) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toJson $warnings -}}
{{- end }}

{{/* All labels that a node of a pool may have; JSON list of selectors, one for each set of anyOf. Input: pool. */}}
{{- define "nvidia-driver.selectors" -}}
{{- $selectors := list -}}
{{- range $set := .anyOf | default (list dict) -}}
  {{- $selectors = append $selectors (merge (deepCopy $set) $.nodeSelector) -}}
{{- end -}}
{{- toJson $selectors -}}
{{- end }}

{{/* Checks that values.schema.json cannot express. */}}
{{- define "nvidia-driver.checks" -}}
{{- $v := .Values -}}
{{- range $at, $keys := dict "podAnnotations" $v.podAnnotations "podLabels" $v.podLabels "commonLabels" $v.commonLabels "nodeSelector" $v.nodeSelector "serviceAccount.annotations" $v.serviceAccount.annotations -}}
  {{- range $key, $_ := $keys -}}
    {{- if not (regexMatch "^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$" $key) -}}
      {{- fail (printf "%s: %q is no key: at most 63 letters, digits and . _ -, after a domain and / if you like (example.com/team)" $at $key) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- range $i, $_ := $v.tolerations -}}
  {{- $at := printf "tolerations[%d]" $i -}}
  {{- if and .value (eq (.operator | default "") "Exists") -}}
    {{- fail (printf "%s: operator Exists takes no value: leave it out, or use operator Equal" $at) -}}
  {{- else if not (or .key (eq (.operator | default "") "Exists")) -}}
    {{- fail (printf "%s: key is missing; only operator Exists does without one" $at) -}}
  {{- else if and (hasKey . "tolerationSeconds") (ne (.effect | default "") "NoExecute") -}}
    {{- fail (printf "%s: tolerationSeconds needs effect NoExecute" $at) -}}
  {{- end -}}
{{- end -}}
{{- if and $v.evictGPUPods (semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version) -}}
  {{- fail (printf "evictGPUPods needs Kubernetes 1.29 (init containers that keep running); this is %s. Set evictGPUPods=false and drain the nodes, or let the GPU Operator do it with safeLoad=true" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if and $v.rbac.ownNodeOnly (semverCompare "<1.32.0-0" .Capabilities.KubeVersion.Version) -}}
  {{- fail (printf "rbac.ownNodeOnly needs Kubernetes 1.32, where tokens say which node they are for; this is %s" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- range $key := list "repoConfig" "certConfig" -}}
  {{- $c := get $v $key -}}
  {{- if and $c.configMapName $c.files -}}
    {{- fail (printf "%s has configMapName and files: use one of them" $key) -}}
  {{- end -}}
  {{- if and $c.items (not $c.configMapName) -}}
    {{- fail (printf "%s.items are names in the ConfigMap of %s.configMapName, which is missing" $key $key) -}}
  {{- end -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled (eq $v.fabric.imex "service") -}}
  {{- fail "networkPolicy.enabled has no effect with fabric.imex=service, whose pods are in the network of the node: set it to false, and let the nodes' firewall do it" -}}
{{- end -}}
{{- if and (not $v.metrics.enabled) (or $v.metrics.service $v.serviceMonitor.enabled $v.podMonitor.enabled) -}}
  {{- fail "metrics.service, serviceMonitor and podMonitor need metrics.enabled=true" -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled $v.podMonitor.enabled -}}
  {{- fail "serviceMonitor and podMonitor would scrape every pod twice: enable one of them" -}}
{{- end -}}
{{- if and (include "nvidia-driver.needsToken" .) (not $v.serviceAccount.create) (not $v.serviceAccount.name) -}}
  {{- fail "events, nodeCondition, safeLoad, evictGPUPods and startupTaints need a service account: serviceAccount.create=true, or the name of one in serviceAccount.name" -}}
{{- end -}}
{{- range $v.startupTaints -}}
  {{- if regexMatch "^(node\\.kubernetes\\.io|node\\.cloudprovider\\.kubernetes\\.io|readiness\\.k8s\\.io)/" . -}}
    {{- fail (printf "startupTaints has %s: a controller of Kubernetes manages that taint and would set it again; use a key of your own, such as example.com/gpu-driver-starting" .) -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* The label that distinguishes the pods of the pools. Always set, so that selectors never overlap. */}}
{{- define "nvidia-driver.poolLabel" -}}
{{- dict "driver-container/pool" (.name | default "default") | toYaml -}}
{{- end }}
