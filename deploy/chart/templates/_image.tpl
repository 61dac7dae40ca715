{{/* The image of a pool. A tag is <driver>-<os>, or <driver>-<kernel>-<os>. */}}

{{/* A kernel release as tags and the label of node feature discovery contain it. */}}
{{- define "nvidia-driver.kernelTag" -}}
{{- regexReplaceAll "[^-A-Za-z0-9_.]" . "_" | trimAll "-_." -}}
{{- end }}

{{/* The system in a tag, "" if it has none that driver-build knows. Input: dict root, tag. */}}
{{- define "nvidia-driver.tagSystem" -}}
{{- $known := (.root.Files.Get "files/systems.yaml" | fromYaml).systems -}}
{{- regexFind (printf "-(%s)[0-9.]*$" (keys $known | sortAlpha | join "|")) .tag | trimPrefix "-" -}}
{{- end }}

{{/* The kernel in a tag, or "". Input: dict root, tag. */}}
{{- define "nvidia-driver.tagKernel" -}}
{{- $os := include "nvidia-driver.tagSystem" . -}}
{{- if $os -}}
{{- $rest := trimSuffix (printf "-%s" $os) .tag -}}
{{- regexReplaceAll "^[0-9]+([.][0-9]+)*-?" $rest "" -}}
{{- end -}}
{{- end }}

{{/* Fills in tag, os and kernel of a pool; JSON. Input: dict root, pool, at (how messages name the pool). */}}
{{- define "nvidia-driver.image" -}}
{{- $image := .root.Values.image -}}
{{- $pool := .pool -}}
{{- $tag := $pool.tag | default $image.tag | toString -}}
{{- $driver := $pool.driver | default "" | toString -}}
{{- $os := $pool.os | default "" -}}
{{- $kernel := $pool.kernel | default "" -}}
{{- $warnings := list -}}
{{- if regexMatch "^[0-9]+([.][0-9]+)*$" $tag -}}
  {{- if and $driver (ne $driver $tag) (or $pool.tag (not $pool.ownDriver)) -}}
    {{- fail (printf "%s: the tag says driver %s and `driver` says %s: give one of them" .at $tag $driver) -}}
  {{- end -}}
  {{- $driver = $driver | default $tag -}}
  {{- $tag = "" -}}
{{- end -}}
{{- if $tag -}}
  {{- if and $driver (not (hasPrefix (printf "%s-" $driver) $tag)) -}}
    {{- fail (printf "%s: the tag %s is not of driver %s: give image.tag the driver's version only (or nothing), or leave `driver` out" .at $tag $driver) -}}
  {{- end -}}
  {{- if and $os (not (hasSuffix (printf "-%s" $os) $tag)) -}}
    {{- fail (printf "%s: the tag %s is not of system %s: give image.tag the driver's version only, or leave `os` out" .at $tag $os) -}}
  {{- end -}}
  {{- $parts := dict "root" .root "tag" $tag -}}
  {{- $os = $os | default (include "nvidia-driver.tagSystem" $parts) -}}
  {{- $inTag := include "nvidia-driver.tagKernel" $parts -}}
  {{- if and $kernel $inTag (ne $inTag (include "nvidia-driver.kernelTag" $kernel)) -}}
    {{- fail (printf "%s: the tag %s is for kernel %s, `kernel` says %s" .at $tag $inTag $kernel) -}}
  {{- end -}}
  {{- if and $inTag (not $pool.precompiled) -}}
    {{- $warnings = append $warnings (printf "%s: the tag %s is for kernel %s only. With precompiled.enabled=true no other nodes get it" .at $tag $inTag) -}}
  {{- end -}}
  {{- if $pool.precompiled -}}{{- $kernel = $kernel | default $inTag -}}{{- end -}}
{{- else -}}
  {{- $missing := list -}}
  {{- if not $driver -}}{{- $missing = append $missing "the driver's version (`driver`, or image.tag)" -}}{{- end -}}
  {{- if not $os -}}{{- $missing = append $missing "the system (`os`)" -}}{{- end -}}
  {{- if and $pool.precompiled (not $kernel) -}}{{- $missing = append $missing "the kernel of the nodes (`kernel`, what uname -r says there)" -}}{{- end -}}
  {{- $middle := ternary (printf "-%s" ($kernel | default "<kernel>")) "" $pool.precompiled -}}
  {{- if and $pool.precompiled $kernel -}}{{- $middle = printf "-%s" (include "nvidia-driver.kernelTag" $kernel) -}}{{- end -}}
  {{- $tag = printf "%s%s-%s" ($driver | default "<driver>") $middle ($os | default "<os>") -}}
  {{- if and $missing (not $pool.digest) -}}
    {{- fail (printf "%s: the image's tag is %s, and what is missing is %s. Or give the whole tag as image.tag" .at $tag (join " and " $missing)) -}}
  {{- end -}}
  {{- if $missing -}}{{- $tag = "" -}}{{- end -}}
{{- end -}}
{{- if and $tag (not (regexMatch "^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$" $tag)) -}}
  {{- fail (printf "%s: %q cannot be a tag: letters, digits and . _ -, at most 128 of them" .at $tag) -}}
{{- end -}}
{{- if and $tag (not (and (include "nvidia-driver.tagSystem" (dict "root" .root "tag" $tag)) (regexMatch "^[0-9]+([.][0-9]+){0,3}-" $tag))) -}}
  {{- $warnings = append $warnings (printf "%s: the tag %q does not read as <driver>-<os> or <driver>-<kernel>-<os>, with a system that driver-build knows: is it the one that was pushed?" .at $tag) -}}
{{- end -}}
{{- $known := .root.Files.Get "files/systems.yaml" | fromYaml -}}
{{- if and (hasKey $known.systems $os) (not (has $os $known.unversioned)) -}}
  {{- fail (printf "%s: the system %s lacks its version: tags of driver-build end in one such as ubuntu22.04 or rhel9" .at $os) -}}
{{- end -}}
{{- $repository := include "nvidia-driver.repository" .root -}}
{{- $ref := printf "%s:%s" $repository $tag -}}
{{- if $pool.digest -}}{{- $ref = printf "%s@%s" $repository $pool.digest -}}{{- end -}}
{{- dict "ref" $ref "tag" $tag "os" $os "kernel" $kernel "warnings" $warnings | toJson -}}
{{- end }}
