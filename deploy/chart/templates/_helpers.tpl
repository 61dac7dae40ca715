{{/* Names and labels. DaemonSet names and selectors must never change between chart versions: Kubernetes refuses another selector, and
     another name gives two DaemonSets during an upgrade. */}}

{{- define "nvidia-driver.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* At most 42 characters, so that a pool's name (20) still fits into a host name. */}}
{{- define "nvidia-driver.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "nvidia-driver.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Names of objects without a namespace: a release of the same name may be in another namespace. */}}
{{- define "nvidia-driver.clusterName" -}}
{{- printf "%s-%s" (include "nvidia-driver.fullname" .) .Release.Namespace -}}
{{- end }}

{{- define "nvidia-driver.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "nvidia-driver.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{/* Labels of all pods of the release, in every pool. */}}
{{- define "nvidia-driver.releaseSelector" -}}
app.kubernetes.io/name: {{ include "nvidia-driver.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: nvidia-driver
{{- end }}

{{- define "nvidia-driver.labels" -}}
{{ include "nvidia-driver.releaseSelector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{/* true if a container has to talk to the API server: no other gets a token. */}}
{{- define "nvidia-driver.needsToken" -}}
{{- with .Values }}{{ if or .events .nodeCondition .safeLoad .evictGPUPods .startupTaints }}true{{ end }}{{ end -}}
{{- end }}
