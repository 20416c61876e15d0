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
{{- $manifest := dict }}{{ $injectFrom := "" }}
{{- if $tls.existingSecret }}
{{- else if $root.Values.certManager.enabled }}
{{- $issuer := dict "kind" "Issuer" "name" (printf "%s-ca" (include "dutycycle.name" $root)) }}
{{- with $root.Values.certManager.issuer }}{{ if .name }}{{ $issuer = . }}{{ end }}{{ end }}
{{- $spec := dict "dnsNames" $hosts "usages" (list "digital signature" "key encipherment" "server auth") "issuerRef" $issuer }}
{{- $manifest = include "dutycycle.issued" (list $root $part $secret $spec) | fromJson }}
{{- if not $caBundle }}{{ $injectFrom = printf "%s/%s" $namespace $secret }}{{ end }}
{{- else }}
{{- $manifest = include "dutycycle.kept" (list $root $part $secret $host $hosts (printf "give %s.tls.existingSecret, or set certManager.enabled" $part)) | fromJson }}
{{- $caBundle = index $manifest.data "ca.crt" }}
{{- end }}
{{- dict "secret" $secret "caBundle" $caBundle "injectFrom" $injectFrom "manifest" $manifest | toJson }}
{{- end }}

{{/*
The certificate by which the extender knows the scheduler, as JSON; its authority signs for nobody else as a client.
  secret: the name of the Secret that has the authority; empty where everybody may ask.
  manifest: the object that makes it; empty where the Secret is there, or none is needed.
*/}}
{{- define "dutycycle.clientCertificate" -}}
{{- $tls := .Values.extender.tls }}
{{- $secret := $tls.clientCaSecret }}{{ $manifest := dict }}
{{- if and (not $secret) $tls.clientAuth }}
{{- $secret = printf "%s-extender-client-tls" (include "dutycycle.name" .) }}
{{- if .Values.certManager.enabled }}
{{- $issuer := dict "kind" "Issuer" "name" (printf "%s-ca" (include "dutycycle.name" .)) }}
{{- $spec := dict "commonName" "kube-scheduler" "usages" (list "digital signature" "key encipherment" "client auth") "issuerRef" $issuer }}
{{- $manifest = include "dutycycle.issued" (list . "extender" $secret $spec) | fromJson }}
{{- else }}
{{- $manifest = include "dutycycle.kept" (list . "extender" $secret "kube-scheduler" nil "give extender.tls.clientCaSecret, or set certManager.enabled, or extender.tls.clientAuth=false") | fromJson }}
{{- end }}
{{- end }}
{{- dict "secret" $secret "manifest" $manifest | toJson }}
{{- end }}

{{/* A Certificate of cert-manager for a Secret, as JSON: (list . "adapter" $secret $spec). */}}
{{- define "dutycycle.issued" -}}
{{- $root := index . 0 }}{{ $secret := index . 2 }}
{{- $meta := dict "name" $secret "namespace" $root.Release.Namespace "labels" (include "dutycycle.labels" (list $root (index . 1)) | fromYaml) }}
{{- $issuer := merge (dict "group" "cert-manager.io") (index . 3).issuerRef }}
{{- $spec := merge (dict "secretName" $secret "issuerRef" $issuer) (index . 3) }}
{{- dict "apiVersion" "cert-manager.io/v1" "kind" "Certificate" "metadata" $meta "spec" $spec | toJson }}
{{- end }}

{{/*
A Secret with a certificate of Helm's own for ten years, as JSON: (list . "adapter" $secret $commonName $hosts $instead).
An upgrade keeps the one that is there. $instead: what to set where that cannot be asked.
*/}}
{{- define "dutycycle.kept" -}}
{{- $root := index . 0 }}{{ $part := index . 1 }}{{ $secret := index . 2 }}
{{- $namespace := $root.Release.Namespace }}
{{- $data := (lookup "v1" "Secret" $namespace $secret | default dict).data | default dict }}
{{- if not (index $data "ca.crt") }}
{{- if not (lookup "v1" "Namespace" "" "kube-system") }}
{{- fail (printf "%s.tls: whether its certificate is there cannot be looked up without the cluster, as with helm template and in Argo CD, and each render would make another one: %s (Helm itself: --dry-run=server)" $part (index . 5)) }}
{{- end }}
{{- $ca := genCA (printf "%s-ca" ($secret | trimSuffix "-tls")) 3650 }}
{{- $made := genSignedCert (index . 3) nil (index . 4) 3650 $ca }}
{{- $data = dict "tls.crt" ($made.Cert | b64enc) "tls.key" ($made.Key | b64enc) "ca.crt" ($ca.Cert | b64enc) }}
{{- end }}
{{- $meta := dict "name" $secret "namespace" $namespace "labels" (include "dutycycle.labels" (list $root $part) | fromYaml) }}
{{- dict "apiVersion" "v1" "kind" "Secret" "metadata" $meta "type" "kubernetes.io/tls" "data" $data | toJson }}
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
