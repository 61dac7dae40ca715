{{/* Values as NVIDIA's charts name them. Those that mean the same here are accepted; for the others files/foreign.yaml says what to use. */}}

{{/* Fails if there are values that this chart has under another name, and names all of them. Input: root. */}}
{{- define "nvidia-driver.foreign" -}}
{{- $found := list -}}
{{- $values := .Values -}}
{{- range $path, $hint := .Files.Get "files/foreign.yaml" | fromYaml -}}
  {{- $at := $values -}}
  {{- $given := true -}}
  {{- range $name := splitList "." $path -}}
    {{- $given = and $given (kindIs "map" $at) (hasKey $at $name) -}}
    {{- if $given -}}{{- $at = get $at $name -}}{{- end -}}
  {{- end -}}
  {{- if $given -}}{{- $found = append $found (printf "\n- %s: %s" $path $hint) -}}{{- end -}}
{{- end -}}
{{- if eq (toString .Values.enabled) "false" -}}
  {{- $found = append $found "\n- enabled=false: only the `condition` of a parent chart reads it: the parent's Chart.yaml needs that line, or leave this chart out" -}}
{{- end -}}
{{- with .Values.driver -}}
  {{- if kindIs "map" . -}}
    {{- if not (dig "enabled" true .) -}}
      {{- $found = append $found "\n- driver.enabled=false: this chart is the driver; do not install it, or give it no nodes with nodeSelector" -}}
    {{- end -}}
    {{- $version := .version | default "" | toString -}}
    {{- if not (regexMatch "^[0-9.]*$" $version) -}}
      {{- $found = append $found (printf "\n- driver.version=%s: use image.tag for a whole tag and image.digest for a digest" $version) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- with $found -}}
  {{- fail (printf "this chart does not have these values:%s" (join "" .)) -}}
{{- end -}}
{{- end }}

{{/* The driver's version: `driver`, or the GPU Operator's driver.version. Input: root. */}}
{{- define "nvidia-driver.version" -}}
{{- $driver := .Values.driver -}}
{{- if kindIs "map" $driver -}}{{- $driver = $driver.version -}}{{- end -}}
{{- $driver | default "" | toString -}}
{{- end }}

{{/* Registry and path of the images: image.repository, or the GPU Operator's driver.repository and driver.image. Input: root. */}}
{{- define "nvidia-driver.repository" -}}
{{- $own := .Values.image.repository -}}
{{- $foreign := "" -}}
{{- with .Values.driver -}}
  {{- if kindIs "map" . -}}
    {{- if .repository -}}
      {{- $foreign = printf "%s/%s" .repository (.image | default "driver") -}}
    {{- else if .image -}}
      {{- fail "driver.image needs driver.repository; or use image.repository for both" -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and $own $foreign (ne $own $foreign) -}}
  {{- fail (printf "image.repository is %s, driver.repository and driver.image are %s: give one of them" $own $foreign) -}}
{{- end -}}
{{- $repository := include "nvidia-driver.mirrored" (dict "root" . "reference" ($own | default $foreign)) -}}
{{- $at := printf "%s=%s" (ternary "image.repository" "driver.repository" (ne $own "")) $repository -}}
{{- if contains "://" $repository -}}
  {{- fail (printf "%s: leave the scheme out: registry and path of the images, as in registry.example.com/gpu/driver" $at) -}}
{{- else if contains "@" $repository -}}
  {{- fail (printf "%s: it has a digest: give that as image.digest" $at) -}}
{{- else if regexMatch ":[^/]*$" $repository -}}
  {{- fail (printf "%s: it has a tag, or no path after the registry: give a tag as image.tag" $at) -}}
{{- else if and $repository (not (regexMatch "^[A-Za-z0-9._-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$" $repository)) -}}
  {{- fail (printf "%s: it is no registry and path, as in registry.example.com/gpu/driver: small letters, digits and . _ - in each part of the path" $at) -}}
{{- end -}}
{{- $repository -}}
{{- end }}

{{/* A reference with the registry of global.imageRegistry instead of its own, if a parent chart gives one. As everywhere, the first
     part of a reference is a registry if it has a dot or a port. Input: dict root, reference. */}}
{{- define "nvidia-driver.mirrored" -}}
{{- $registry := (.root.Values.global | default dict).imageRegistry | default "" | trimSuffix "/" -}}
{{- if contains "://" $registry -}}
  {{- fail (printf "global.imageRegistry=%s: leave the scheme out, as in registry.example.com" $registry) -}}
{{- end -}}
{{- if and $registry .reference -}}
  {{- printf "%s/%s" $registry (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" .reference "") -}}
{{- else -}}
  {{- .reference -}}
{{- end -}}
{{- end }}

{{/* The same for a list, as JSON. Input: dict root, references. */}}
{{- define "nvidia-driver.mirroredAll" -}}
{{- $all := list -}}
{{- range .references -}}
  {{- $all = append $all (include "nvidia-driver.mirrored" (dict "root" $.root "reference" .)) -}}
{{- end -}}
{{- toJson $all -}}
{{- end }}

{{/* Names of the secrets for the registry, as a JSON list: image.pullSecrets, those of a parent chart, imagePullSecrets and
     driver.imagePullSecrets. Input: root. */}}
{{- define "nvidia-driver.pullSecrets" -}}
{{- $names := list -}}
{{- $global := (.Values.global | default dict).imagePullSecrets | default list -}}
{{- $all := concat .Values.image.pullSecrets $global (.Values.imagePullSecrets | default list) -}}
{{- if kindIs "map" .Values.driver -}}{{- $all = concat $all (.Values.driver.imagePullSecrets | default list) -}}{{- end -}}
{{- range $all -}}
  {{- $name := . -}}
  {{- if kindIs "map" . -}}{{- $name = .name -}}{{- end -}}
  {{- $names = append $names $name -}}
{{- end -}}
{{- uniq $names | toJson -}}
{{- end }}
