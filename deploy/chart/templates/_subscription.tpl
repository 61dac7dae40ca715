{{/* Subscriptions of RHEL and SLES, where node/headers looks for them. Input everywhere: dict root, pool. */}}

{{/* The system whose subscription a pool needs: rhel, sles, or nothing. */}}
{{- define "nvidia-driver.subscribed" -}}
{{- with .root.Values.subscription -}}
{{- if or .fromNode .rhelSecret .slesSecret -}}
{{- $system := regexFind "^(rhel|sles)" $.pool.os -}}
{{- if or .fromNode (and (eq $system "rhel") .rhelSecret) (and (eq $system "sles") .slesSecret) -}}
{{- $system -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "nvidia-driver.subscriptionMounts" -}}
{{- $system := include "nvidia-driver.subscribed" . -}}
{{- if eq $system "rhel" }}
- {name: entitlement, mountPath: /run/secrets/etc-pki-entitlement, readOnly: true}
{{- if .root.Values.subscription.fromNode }}
- {name: rhsm, mountPath: /run/secrets/rhsm, readOnly: true}
- {name: redhat-repo, mountPath: /run/secrets/redhat.repo, readOnly: true}
{{- else }}
- {name: rhsm, mountPath: /run/secrets/rhsm/ca, readOnly: true}
- {name: entitlement, mountPath: /run/secrets/redhat.repo, subPath: redhat.repo, readOnly: true}
{{- end }}
{{- else if eq $system "sles" }}
- {name: zypper-repos, mountPath: /etc/zypp/repos.d, readOnly: true}
- {name: zypper-credentials, mountPath: /etc/zypp/credentials.d, readOnly: true}
{{- end }}
{{- end }}

{{/* The type of a folder keeps a pod from starting on a node that is not registered; the Event names the folder. */}}
{{- define "nvidia-driver.subscriptionVolumes" -}}
{{- $system := include "nvidia-driver.subscribed" . -}}
{{- with .root.Values.subscription -}}
{{- if and (eq $system "rhel") .fromNode }}
- {name: entitlement, hostPath: {path: /etc/pki/entitlement, type: Directory}}
- {name: rhsm, hostPath: {path: /etc/rhsm, type: Directory}}
- {name: redhat-repo, hostPath: {path: /etc/yum.repos.d/redhat.repo, type: File}}
{{- else if eq $system "rhel" }}
- {name: entitlement, secret: {secretName: {{ .rhelSecret }}, defaultMode: 256}} # 0400
- {name: rhsm, secret: {secretName: {{ .rhelSecret }}, items: [{key: redhat-uep.pem, path: redhat-uep.pem}], optional: true}} # the base has it, too
{{- else if and (eq $system "sles") .fromNode }}
- {name: zypper-repos, hostPath: {path: /etc/zypp/repos.d, type: Directory}}
- {name: zypper-credentials, hostPath: {path: /etc/zypp/credentials.d, type: Directory}}
{{- else if eq $system "sles" }}
- {name: zypper-repos, secret: {secretName: {{ .slesSecret }}, defaultMode: 256}} # 0400
- {name: zypper-credentials, secret: {secretName: {{ .slesSecret }}, defaultMode: 256}}
{{- end }}
{{- end }}
{{- end }}

{{/* A subscription that no pool can use was meant for another release. Input: dict root, pools. */}}
{{- define "nvidia-driver.checkSubscription" -}}
{{- with .root.Values.subscription -}}
{{- if and .fromNode (or .rhelSecret .slesSecret) -}}
  {{- fail "subscription.fromNode mounts the nodes' own subscription, subscription.rhelSecret and slesSecret replace it: use one of them" -}}
{{- end -}}
{{- $systems := list -}}
{{- $used := dict -}}
{{- range $.pools -}}
  {{- $systems = append $systems (.os | default "unknown") -}}
  {{- $_ := set $used (regexFind "^(rhel|sles)" .os | default "none") true -}}
{{- end -}}
{{- range $key, $wanted := dict "fromNode" (list "rhel" "sles") "rhelSecret" (list "rhel") "slesSecret" (list "sles") -}}
  {{- if get $.root.Values.subscription $key -}}
    {{- $found := false -}}
    {{- range $wanted -}}{{- if hasKey $used . -}}{{- $found = true -}}{{- end -}}{{- end -}}
    {{- if not $found -}}
      {{- fail (printf "subscription.%s is for images of %s; the systems here are %s: leave it out, or name the system with `os`" $key (join " or " $wanted) (join ", " $systems)) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
