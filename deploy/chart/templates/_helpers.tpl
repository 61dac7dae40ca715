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

{{/* Names of objects without a namespace, or in that of other programs. A namespace has no dot, so that no two releases share a name:
     with "-" both a in b-c and a-b in c would be a-b-c. */}}
{{- define "nvidia-driver.clusterName" -}}
{{- printf "%s.%s" (include "nvidia-driver.fullname" .) .Release.Namespace -}}
{{- end }}

{{- define "nvidia-driver.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "nvidia-driver.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{/* Labels of all pods of the release, in every pool. */}}
{{- define "nvidia-driver.releaseSelector" -}}
{{- dict "app.kubernetes.io/name" (include "nvidia-driver.name" .)
         "app.kubernetes.io/instance" .Release.Name
         "app.kubernetes.io/component" "nvidia-driver" | toYaml -}}
{{- end }}

{{/* Labels of all pods of a pool that are not the driver's. Input: dict root, pool, component. */}}
{{- define "nvidia-driver.besideSelector" -}}
{{- merge (dict "app.kubernetes.io/component" .component)
          (include "nvidia-driver.releaseSelector" .root | fromYaml)
          (include "nvidia-driver.poolLabel" .pool | fromYaml) | toYaml -}}
{{- end }}

{{/* Labels of an object. `own` are the chart's, as YAML: selectors and helm need their values, so no other label replaces one.
     `more` are those of one value; commonLabels come last. Input: dict root, own, more. */}}
{{- define "nvidia-driver.labelled" -}}
{{- toYaml (merge (fromYaml .own) (.more | default dict) (.root.Values.commonLabels | default dict)) -}}
{{- end }}

{{- define "nvidia-driver.ownLabels" -}}
{{ include "nvidia-driver.releaseSelector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{- define "nvidia-driver.labels" -}}
{{- include "nvidia-driver.labelled" (dict "root" . "own" (include "nvidia-driver.ownLabels" .)) -}}
{{- end }}

{{/* true if the cluster is OpenShift, which admits privileged pods by the rights of their service account. */}}
{{- define "nvidia-driver.openshift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1/SecurityContextConstraints" }}true{{ end -}}
{{- end }}

{{/* true if a container has to talk to the API server: no other gets a token. */}}
{{- define "nvidia-driver.needsToken" -}}
{{- with .Values }}{{ if or .events .nodeCondition .safeLoad .evictGPUPods .startupTaints }}true{{ end }}{{ end -}}
{{- end }}
