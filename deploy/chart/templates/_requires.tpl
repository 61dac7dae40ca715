{{/* What workloads need of the driver. */}}

{{/* A driver's version in a form that sorts as text: 535.261.03 is 005350026100003. Input: the version. */}}
{{- define "nvidia-driver.sortable" -}}
{{- range $i := until 3 -}}{{- printf "%05d" (index (concat (splitList "." $) (list "0" "0")) $i | atoi) -}}{{- end -}}
{{- end }}

{{/* Fails if the driver of a pool does not run the release of CUDA that is required. Input: dict root, own (the pool's entry in the
     values), pool, at. */}}
{{- define "nvidia-driver.requires" -}}
{{- $requires := mustMergeOverwrite (deepCopy .root.Values.requires) (deepCopy (.own.requires | default dict)) -}}
{{- $cuda := $requires.cuda | default "" | toString -}}
{{- if and $cuda (not (kindIs "string" $requires.cuda)) (not (contains "." $cuda)) -}}
  {{- $cuda = printf "%s.0" $cuda -}}{{/* 12.0 without quotes is the number 12 */}}
{{- end -}}
{{- if $cuda -}}
  {{- $known := .root.Files.Get "files/cuda.yaml" | fromYaml -}}
  {{- if not (hasKey $known $cuda) -}}
    {{- $near := list -}}
    {{- range $name := keys $known | sortAlpha -}}
      {{- if hasPrefix (printf "%s." (splitList "." $cuda | first)) $name -}}{{- $near = append $near $name -}}{{- end -}}
    {{- end -}}
    {{- if not $near -}}{{- $near = keys $known | sortAlpha -}}{{- end -}}
    {{- fail (printf "%s: requires.cuda: no CUDA %s is known, give one of %s" .at $cuda (join ", " $near)) -}}
  {{- end -}}
  {{- $row := get $known $cuda -}}
  {{- $driver := regexFind "^[0-9]+([.][0-9]+){1,2}" (.pool.tag | default .pool.driver | default "" | toString) -}}
  {{- if not $driver -}}
    {{- fail (printf "%s: requires.cuda: the driver of the image is not known: give `driver`, or a tag that begins with its version" .at) -}}
  {{- end -}}
  {{- $has := include "nvidia-driver.sortable" $driver -}}
  {{- $enough := printf "%s or newer, and %s or newer for all of it" $row.floor $row.native -}}
  {{- if eq $row.floor $row.native -}}{{- $enough = printf "%s or newer" $row.floor -}}{{- end -}}
  {{- if lt $has (include "nvidia-driver.sortable" $row.floor) -}}
    {{- fail (printf "%s: driver %s does not run CUDA %s (requires.cuda): that needs driver %s" .at $driver $cuda $enough) -}}
  {{- else if and $requires.native (lt $has (include "nvidia-driver.sortable" $row.native)) -}}
    {{- fail (printf "%s: driver %s runs CUDA %s by minor-version compatibility only (requires.native): all of it needs driver %s or newer" .at $driver $cuda $row.native) -}}
  {{- end -}}
{{- end -}}
{{- end }}
