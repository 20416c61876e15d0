{{/*
The certificate that a part serves with, as JSON: (list . "adapter").
  secret: the name of the Secret that has it.
  caBundle: who signed it, PEM in base64; empty where that is not known here.
  injectFrom: the Certificate whose authority cert-manager is to put in instead, <namespace>/<name>.
  manifest: the object that makes it: a Certificate, or the Secret itself. Empty where the Secret is there.
*/}}
{{- define "dutycycle.certificate" -}}
{{- $root := index . 0 }}{{ $part := index . 1 }}
{{- $name := printf "%s-%s" (include "dutycycle.name" $root) $part }}
{{- $namespace := $root.Release.Namespace }}
{{- $host := printf "%s.%s.svc" $name $namespace }}
{{- $hosts := list $host (printf "%s.cluster.local" $host) }}
{{- $tls := (index $root.Values $part).tls }}
{{- $secret := $tls.existingSecret | default (printf "%s-tls" $name) }}
{{- $caBundle := $tls.caBundle | default "" }}
{{- $meta := dict "name" $secret "namespace" $namespace "labels" (include "dutycycle.labels" (list $root $part) | fromYaml) }}
{{- $manifest := dict }}{{ $injectFrom := "" }}
{{- if $tls.existingSecret }}
{{- else if $root.Values.certManager.enabled }}
{{- $spec := dict "secretName" $secret "dnsNames" $hosts "usages" (list "digital signature" "key encipherment" "server auth") "issuerRef" (include "dutycycle.issuer" $root | fromYaml) }}
{{- $manifest = dict "apiVersion" "cert-manager.io/v1" "kind" "Certificate" "metadata" $meta "spec" $spec }}
{{- if not $caBundle }}{{ $injectFrom = printf "%s/%s" $namespace $secret }}{{ end }}
{{- else }}
{{- /* One of our own for ten years; an upgrade keeps the one that is there. */}}
{{- $data := (lookup "v1" "Secret" $namespace $secret | default dict).data | default dict }}
{{- if not (index $data "ca.crt") }}
{{- if not (lookup "v1" "Namespace" "" "kube-system") }}
{{- fail (printf "%s.tls: whether its certificate is there cannot be looked up without the cluster, as with helm template and in Argo CD, and each render would make another one: give %s.tls.existingSecret, or set certManager.enabled (Helm itself: --dry-run=server)" $part $part) }}
{{- end }}
{{- $ca := genCA (printf "%s-ca" $name) 3650 }}
{{- $made := genSignedCert $host nil $hosts 3650 $ca }}
{{- $data = dict "tls.crt" ($made.Cert | b64enc) "tls.key" ($made.Key | b64enc) "ca.crt" ($ca.Cert | b64enc) }}
{{- end }}
{{- $caBundle = index $data "ca.crt" }}
{{- $manifest = dict "apiVersion" "v1" "kind" "Secret" "metadata" $meta "type" "kubernetes.io/tls" "data" $data }}
{{- end }}
{{- dict "secret" $secret "caBundle" $caBundle "injectFrom" $injectFrom "manifest" $manifest | toJson }}
{{- end }}

{{/* Who signs with cert-manager: the issuer that is named, or the one of certificates.yaml. */}}
{{- define "dutycycle.issuer" -}}
{{- with .Values.certManager.issuer }}
group: cert-manager.io
kind: {{ ternary .kind "Issuer" (ne .name "") }}
name: {{ .name | default (printf "%s-ca" (include "dutycycle.name" $)) }}
{{- end }}
{{- end }}

{{/* The annotations of what the API server is to trust: (list $certificate .annotations). */}}
{{- define "dutycycle.injected" -}}
{{- $annotations := index . 1 }}
{{- with (index . 0).injectFrom }}{{ $annotations = merge (dict "cert-manager.io/inject-ca-from" .) $annotations }}{{ end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
