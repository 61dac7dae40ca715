{{/* Gives each value that is missing its default. Helm takes a key without a value away, together with its default; and `helm upgrade
     --reuse-values` knows only the defaults of the chart that was installed. Every file begins with this. Input: root. */}}
{{- define "nvidia-driver.defaults" -}}
{{- include "nvidia-driver.fill" (dict "values" .Values "defaults" (.Files.Get "files/defaults.yaml" | fromYaml)) -}}
{{- end }}

{{/* Input: dict values, defaults. */}}
{{- define "nvidia-driver.fill" -}}
{{- range $key, $default := .defaults -}}
  {{- $value := index $.values $key -}}
  {{- if kindIs "invalid" $value -}}
    {{- $_ := set $.values $key $default -}}
  {{- else if and (kindIs "map" $default) (kindIs "map" $value) -}}
    {{- include "nvidia-driver.fill" (dict "values" $value "defaults" $default) -}}
  {{- end -}}
{{- end -}}
{{- end }}
