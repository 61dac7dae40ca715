{{/* Volumes of the pod and mounts of the driver's container. Input: dict root, pool. */}}

{{/* What the checks before a start look at: the node, and the key that signs modules. Input of the latter: root. */}}
{{- define "nvidia-driver.nodeMounts" -}}
{{- $v := .root.Values -}}
- {name: run-nvidia, mountPath: /run/nvidia, mountPropagation: Bidirectional}
- {name: dev, mountPath: /dev}
- {name: lib-modules, mountPath: /lib/modules, readOnly: true}
- {name: host-usr, mountPath: /host/usr, readOnly: true}
{{- if $v.hostStateDir }}
- {name: state, mountPath: /var/lib/nvidia-driver}
{{- end }}
{{- include "nvidia-driver.moduleMounts" .pool.moduleImages }}
{{- end }}

{{/* Images of modules. Input: list of references. */}}
{{- define "nvidia-driver.moduleMounts" -}}
{{- range $i, $_ := . }}
- {name: module-image-{{ $i }}, mountPath: /run/module-images/{{ $i }}, readOnly: true}
{{- end }}
{{- end }}

{{/* Their volumes. Input: dict root, images. */}}
{{- define "nvidia-driver.moduleVolumes" -}}
{{- $version := .root.Capabilities.KubeVersion.Version -}}
{{- if and .images (semverCompare "<1.33.0-0" $version) -}}
  {{- fail (printf "moduleImages need Kubernetes 1.33 (image volumes); this is %s. Use an image with modules for each kernel (precompiled.enabled=true)" $version) -}}
{{- end -}}
{{- range $i, $image := .images }}
- {name: module-image-{{ $i }}, image: {reference: {{ $image | quote }}, pullPolicy: {{ $.root.Values.image.pullPolicy }}}}
{{- end }}
{{- end }}

{{- define "nvidia-driver.signingMount" -}}
{{- if .Values.moduleSigning.secretName }}
- {name: module-signing, mountPath: /etc/nvidia-driver/module-signing, readOnly: true}
{{- end }}
{{- end }}

{{- define "nvidia-driver.signingVolume" -}}
{{- with .Values.moduleSigning }}
{{- if .secretName }}
- name: module-signing
  secret:
    secretName: {{ .secretName }}
    defaultMode: 256 # 0400
    items:
      {{- range compact (list .key .cert .passphrase) }}
      - {key: {{ . | quote }}, path: {{ . | quote }}}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The node's /usr is at /host/usr and never at /usr/src, where the image has the sources of the driver's modules. hostPID shows it, too, below
     /proc/1/root; but a compile uses headers in place only inside its own root, and copies others first, 60 MB. */}}
{{- define "nvidia-driver.ownMounts" -}}
{{- $v := .root.Values -}}
{{- $pool := .pool -}}
{{ include "nvidia-driver.nodeMounts" . }}
{{- if $v.rdma.enabled }}
- {name: mofed, mountPath: /run/mellanox/drivers, mountPropagation: HostToContainer}
{{- end }}
{{- range $module := keys $pool.moduleParameters | sortAlpha }}
- {name: module-parameters, mountPath: /drivers/{{ $module }}.conf, subPath: {{ $module }}.conf, readOnly: true}
{{- end }}
{{- range $file := include "nvidia-driver.fabricFiles" .root | fromYaml | keys | sortAlpha }}
- {name: fabric, mountPath: /drivers/{{ $file }}, subPath: {{ $file }}, readOnly: true}
{{- end }}
{{- with $v.vgpu.licensing }}
{{- if and .secretName .token }}
- {name: vgpu-token, mountPath: /drivers/ClientConfigToken, readOnly: true}
{{- end }}
{{- if and .secretName .settings }}
- {name: vgpu-settings, mountPath: /drivers/gridd.conf, subPath: gridd.conf, readOnly: true}
{{- end }}
{{- end }}
{{- range $key := list "repoConfig" "certConfig" }}
{{- $c := get $v $key }}
{{- if or $c.configMapName $c.files }}
{{- $dir := include "nvidia-driver.configDir" (dict "root" $.root "pool" $pool "key" $key) }}
{{- $files := $c.items }}
{{- if $c.files }}{{ $files = keys $c.files | sortAlpha }}{{ end }}
{{- range $files }}
- {name: {{ lower $key }}, mountPath: {{ printf "%s/%s" $dir . }}, subPath: {{ . }}, readOnly: true}
{{- else }}
- {name: {{ lower $key }}, mountPath: {{ $dir }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
{{- include "nvidia-driver.subscriptionMounts" . }}
{{- include "nvidia-driver.signingMount" .root }}
{{- if include "nvidia-driver.needsToken" .root }}
{{ include "nvidia-driver.tokenMount" .root }}
{{- end }}
{{- end }}

{{- define "nvidia-driver.mounts" -}}
{{ include "nvidia-driver.ownMounts" . }}
{{- with .root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "nvidia-driver.nodeVolumes" -}}
{{- $v := .root.Values -}}
- {name: run-nvidia, hostPath: {path: /run/nvidia, type: DirectoryOrCreate}}
- {name: dev, hostPath: {path: /dev}}
- {name: lib-modules, hostPath: {path: /lib/modules}}
- {name: host-usr, hostPath: {path: /usr}}
{{- with $v.hostStateDir }}
- {name: state, hostPath: {path: {{ . }}, type: DirectoryOrCreate}}
{{- end }}
{{- include "nvidia-driver.moduleVolumes" (dict "root" .root "images" .pool.moduleImages) }}
{{- end }}

{{- define "nvidia-driver.ownVolumes" -}}
{{- $v := .root.Values -}}
{{- $pool := .pool -}}
{{ include "nvidia-driver.nodeVolumes" . }}
{{- if $v.rdma.enabled }}
- {name: mofed, hostPath: {path: /run/mellanox/drivers, type: DirectoryOrCreate}}
{{- end }}
{{- if $pool.moduleParameters }}
- {name: module-parameters, configMap: {name: {{ $pool.daemonSet }}-modules}}
{{- end }}
{{- if include "nvidia-driver.fabricFiles" .root | fromYaml }}
- {name: fabric, configMap: {name: {{ include "nvidia-driver.fullname" .root }}-fabric}}
{{- end }}
{{- with $v.vgpu.licensing }}
{{- if and .secretName .token }}
- {name: vgpu-token, secret: {secretName: {{ .secretName }}, defaultMode: 0400, items: [{key: {{ .token }}, path: {{ .token }}}]}}
{{- end }}
{{- if and .secretName .settings }}
- {name: vgpu-settings, secret: {secretName: {{ .secretName }}, defaultMode: 0400, items: [{key: {{ .settings }}, path: gridd.conf}]}}
{{- end }}
{{- end }}
{{- range $key, $suffix := dict "repoConfig" "repositories" "certConfig" "certificates" }}
{{- $c := get $v $key }}
{{- if or $c.configMapName $c.files }}
- {name: {{ lower $key }}, configMap: {name: {{ $c.configMapName | default (printf "%s-%s" (include "nvidia-driver.fullname" $.root) $suffix) }}}}
{{- end }}
{{- end }}
{{- include "nvidia-driver.subscriptionVolumes" . }}
{{- include "nvidia-driver.signingVolume" .root }}
{{- if include "nvidia-driver.needsToken" .root }}
{{ include "nvidia-driver.tokenVolume" .root }}
{{- end }}
{{- end }}

{{- define "nvidia-driver.volumes" -}}
{{- include "nvidia-driver.checkVolumes" . -}}
{{ include "nvidia-driver.ownVolumes" . }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Fails if what a user adds is there already, or mounts what is not there: the API server would refuse it after other objects are
     made. Input: dict root, pool. */}}
{{- define "nvidia-driver.checkVolumes" -}}
{{- $v := .root.Values -}}
{{- $volumes := dict -}}
{{- range include "nvidia-driver.ownVolumes" . | fromYamlArray -}}{{- $_ := set $volumes .name true -}}{{- end -}}
{{- range $v.extraVolumes -}}
  {{- if hasKey $volumes .name -}}
    {{- fail (printf "extraVolumes: the pod has a volume %q already: choose another name" .name) -}}
  {{- end -}}
  {{- $_ := set $volumes .name true -}}
{{- end -}}
{{- $paths := dict -}}
{{- range include "nvidia-driver.ownMounts" . | fromYamlArray -}}{{- $_ := set $paths .mountPath true -}}{{- end -}}
{{- range $v.extraVolumeMounts -}}
  {{- if not (hasKey $volumes .name) -}}
    {{- fail (printf "extraVolumeMounts: there is no volume %q: add it to extraVolumes" .name) -}}
  {{- else if hasKey $paths .mountPath -}}
    {{- fail (printf "extraVolumeMounts: something is mounted at %s already" .mountPath) -}}
  {{- end -}}
  {{- $_ := set $paths .mountPath true -}}
{{- end -}}
{{- $containers := dict "nvidia-driver-ctr" true "driver-evict" true -}}
{{- range $container := $v.initContainers -}}
  {{- if hasKey $containers .name -}}
    {{- fail (printf "initContainers: the pod has a container %q already: choose another name" .name) -}}
  {{- end -}}
  {{- $_ := set $containers .name true -}}
  {{- range .volumeMounts -}}
    {{- if not (hasKey $volumes .name) -}}
      {{- fail (printf "initContainers: %s mounts a volume %q, which is not there: add it to extraVolumes" $container.name .name) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end }}

{{/* The folder for repositories or certificates of a pool's system. Input: dict root, pool, key (repoConfig or certConfig). */}}
{{- define "nvidia-driver.configDir" -}}
{{- $c := get .root.Values .key -}}
{{- if $c.path -}}
{{- $c.path | trimSuffix "/" -}}
{{- else -}}
{{- $table := .root.Files.Get "files/systems.yaml" | fromYaml -}}
{{- $kind := get $table.systems (regexFind "^[a-z]+(-[a-z]+)*" .pool.os) -}}
{{- if not $kind -}}
  {{- fail (printf "%s.path is missing: nothing is known about the system %q of the image %s" .key .pool.os .pool.ref) -}}
{{- end -}}
{{- get (get $table.folders $kind) .key -}}
{{- end -}}
{{- end }}

{{/* Files about NVLink switches for the folder /drivers, by name. Input: root. */}}
{{- define "nvidia-driver.fabricFiles" -}}
{{- $f := .Values.fabric -}}
{{- if and (eq $f.imex "service") (not $f.imexNodes) -}}
  {{- fail "fabric.imexNodes is empty: fabric.imex: service needs the addresses of the domain's nodes" -}}
{{- end -}}
{{- with $f.config }}
fabricmanager.cfg: {{ . | quote }}
{{- end }}
{{- with $f.imexNodes }}
imex_nodes.cfg: {{ printf "%s\n" (join "\n" .) | quote }}
{{- end }}
{{- end }}
