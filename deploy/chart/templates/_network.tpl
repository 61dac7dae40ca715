{{/* What a pod's network policy lets out. A rule without ports, or with an empty list of them, admits everything: there is none. */}}

{{/* The rules, as a YAML list. Input: root. */}}
{{- define "nvidia-driver.egress" -}}
{{- $v := .Values -}}
{{- $rules := list -}}
{{- if include "nvidia-driver.needsToken" . -}}
  {{- $rules = append $rules (include "nvidia-driver.toPorts" $v.networkPolicy.apiServerPorts | fromYaml) -}}
{{- end -}}
{{- $licence := $v.vgpu.licensing.secretName -}}
{{- if $licence -}}
  {{- $rules = append $rules (include "nvidia-driver.toPorts" $v.networkPolicy.licensePorts | fromYaml) -}}
{{- end -}}
{{- if $v.fetchHeaders -}}
  {{- $ports := concat ($v.networkPolicy.repositoryPorts | default list) (include "nvidia-driver.repositoryPorts" . | fromJsonArray) -}}
  {{- $rules = append $rules (include "nvidia-driver.toPorts" $ports | fromYaml) -}}
{{- end -}}
{{- if or $licence $v.fetchHeaders -}}
  {{- /* DNS. The pods of OpenShift's listen on 5353, and its network compares after the address of the service is replaced. */ -}}
  {{- $dns := list -}}
  {{- range $port := list 53 5353 -}}
    {{- range $protocol := list "UDP" "TCP" -}}{{- $dns = append $dns (dict "port" $port "protocol" $protocol) -}}{{- end -}}
  {{- end -}}
  {{- $rules = append $rules (dict "ports" $dns) -}}
{{- end -}}
{{- concat (without $rules dict) ($v.networkPolicy.extraEgress | default list) | toYaml -}}
{{- end }}

{{/* A rule for ports of TCP; an empty mapping without ports. Input: list of ports. */}}
{{- define "nvidia-driver.toPorts" -}}
{{- $ports := list -}}
{{- range . -}}{{- $ports = append $ports (int .) -}}{{- end -}}
{{- $rule := list -}}
{{- range $ports | uniq -}}{{- $rule = append $rule (dict "port" . "protocol" "TCP") -}}{{- end -}}
{{- with $rule -}}{{- dict "ports" . | toYaml -}}{{- end -}}
{{- end }}

{{/* The ports of proxies and repositories that the values name, as a JSON list. Input: root. */}}
{{- define "nvidia-driver.repositoryPorts" -}}
{{- $v := .Values -}}
{{- $urls := list $v.proxies.httpProxy $v.proxies.httpsProxy -}}
{{- range $v.env -}}
  {{- if has (upper .name) (list "HTTP_PROXY" "HTTPS_PROXY") -}}{{- $urls = append $urls (.value | default "" | toString) -}}{{- end -}}
{{- end -}}
{{- range $v.repoConfig.files -}}
  {{- $urls = concat $urls (regexFindAll "https?://[^\\s\"'<>]+" . -1) -}}
{{- end -}}
{{- $ports := list -}}
{{- range compact $urls -}}
  {{- $authority := regexReplaceAll "^[A-Za-z0-9+.-]+://" . "" | regexFind "^[^/?#]*" | splitList "@" | last -}}
  {{- $usual := ternary ":443" ":80" (hasPrefix "https://" (lower .)) -}}
  {{- $ports = append $ports (regexFind ":[0-9]+$" $authority | default $usual | trimPrefix ":" | int) -}}
{{- end -}}
{{- toJson $ports -}}
{{- end }}
