{{- define "dutycycle.name" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" (.Release.Name | trunc 30) $name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Labels that select: never to be changed on a Deployment that exists. Call with (list . "component"). */}}
{{- define "dutycycle.selector" -}}
app.kubernetes.io/name: dutycycle
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "dutycycle.labels" -}}
{{ include "dutycycle.selector" . }}
app.kubernetes.io/part-of: dutycycle
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
{{- with (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dutycycle.image" -}}
{{- $digest := .Values.image.digest }}
{{- if and $digest (not (hasPrefix "sha256:" $digest)) }}{{ fail "image.digest: give sha256: and 64 hexadecimal digits, or nothing" }}{{ end }}
{{- .Values.image.repository }}{{ if $digest }}@{{ $digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The image of the nodes' collectors: one of their own where it is named, else everybody's. */}}
{{- define "dutycycle.collectorImage" -}}
{{- with .Values.collector.image }}{{ . }}{{ else }}{{ include "dutycycle.image" . }}{{ end }}
{{- end }}

{{- define "dutycycle.broker" -}}
{{- if .Values.kafka.trial.enabled }}kafka://{{ include "dutycycle.name" . }}-kafka-bootstrap:9092{{ else }}{{ required "kafka.broker: give kafka://host:9092, or set kafka.trial.enabled" .Values.kafka.broker }}{{ end }}
{{- end }}

{{/* Ports that Kafka is reached at, as a JSON list: those of the values and those of the broker's own addresses. */}}
{{- define "dutycycle.kafkaPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.kafkaPorts }}{{ $ports = append $ports (int .) }}{{ end }}
{{- range splitList "," (include "dutycycle.broker" .) }}
{{- $port := regexFind ":[0-9]+$" . | required "kafka.broker: every address needs its port, as in kafka://host:9092" }}
{{- $ports = append $ports (trimPrefix ":" $port | int) }}
{{- end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{- define "dutycycle.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "dutycycle.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "dutycycle.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* How Kafka is reached, and what is in it: the same for every part. */}}
{{- define "dutycycle.kafkaEnv" -}}
- {name: DUTYCYCLE_BROKER, value: {{ include "dutycycle.broker" . | quote }}}
- {name: DUTYCYCLE_TOPIC_PREFIX, value: {{ .Values.kafka.topicPrefix | quote }}}
- {name: DUTYCYCLE_ANALYSES, value: {{ .Values.analyses | quote }}}
- {name: DUTYCYCLE_PARTITIONS, value: {{ .Values.kafka.partitions | int64 | quote }}}
- {name: DUTYCYCLE_REPLICATION, value: {{ .Values.kafka.replication | int64 | quote }}}
{{- with .Values.kafka.sasl }}
{{- if .mechanism }}
- {name: DUTYCYCLE_SASL_MECHANISM, value: {{ .mechanism | quote }}}
{{- if eq .mechanism "OAUTHBEARER" }}
- {name: DUTYCYCLE_SASL_TOKEN_FILE, value: /etc/dutycycle/sasl/password}
{{- else }}
- {name: DUTYCYCLE_SASL_USERNAME, value: {{ required "kafka.sasl.username" .username | quote }}}
- {name: DUTYCYCLE_SASL_PASSWORD_FILE, value: /etc/dutycycle/sasl/password}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.kafka.tls.caSecret }}
- {name: DUTYCYCLE_TLS_CA, value: /etc/dutycycle/ca/ca.crt}
{{- end }}
{{- if .Values.kafka.tls.clientSecret }}
- {name: DUTYCYCLE_TLS_CERT, value: /etc/dutycycle/client/tls.crt}
- {name: DUTYCYCLE_TLS_KEY, value: /etc/dutycycle/client/tls.key}
{{- end }}
{{- end }}

{{- define "dutycycle.kafkaMounts" -}}
{{- if .Values.kafka.sasl.mechanism }}
- {name: kafka-sasl, mountPath: /etc/dutycycle/sasl, readOnly: true}
{{- end }}
{{- if .Values.kafka.tls.caSecret }}
- {name: kafka-ca, mountPath: /etc/dutycycle/ca, readOnly: true}
{{- end }}
{{- if .Values.kafka.tls.clientSecret }}
- {name: kafka-client, mountPath: /etc/dutycycle/client, readOnly: true}
{{- end }}
{{- end }}

{{- define "dutycycle.kafkaVolumes" -}}
{{- with .Values.kafka.sasl }}
{{- if .mechanism }}
- name: kafka-sasl
  secret:
    secretName: {{ required "kafka.sasl.existingSecret" .existingSecret }}
    defaultMode: 0440
    items: [{key: {{ .passwordKey | quote }}, path: password}]
{{- end }}
{{- end }}
{{- with .Values.kafka.tls }}
{{- if .caSecret }}
- name: kafka-ca
  secret:
    secretName: {{ .caSecret }}
    defaultMode: 0440
    items: [{key: {{ .caKey | quote }}, path: ca.crt}]
{{- end }}
{{- if .clientSecret }}
- name: kafka-client
  secret:
    secretName: {{ .clientSecret }}
    defaultMode: 0440
    items: [{key: {{ .certKey | quote }}, path: tls.crt}, {key: {{ .keyKey | quote }}, path: tls.key}]
{{- end }}
{{- end }}
{{- end }}

{{/* HTTP, not exec: a probe by command would cost a start of Python every ten seconds on every node. */}}
{{- define "dutycycle.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics{{ if .Values.listen.tls.existingSecret }}, scheme: HTTPS{{ end }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics{{ if .Values.listen.tls.existingSecret }}, scheme: HTTPS{{ end }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics{{ if .Values.listen.tls.existingSecret }}, scheme: HTTPS{{ end }}}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}

{{/* Where health and metrics are served, and what keeps others out. */}}
{{- define "dutycycle.listenEnv" -}}
- {name: DUTYCYCLE_LISTEN, value: {{ printf "0.0.0.0:%v" .Values.listen.port | quote }}}
{{- if .Values.listen.tls.existingSecret }}
- {name: DUTYCYCLE_LISTEN_CERT, value: /etc/dutycycle/listen-tls/tls.crt}
- {name: DUTYCYCLE_LISTEN_KEY, value: /etc/dutycycle/listen-tls/tls.key}
{{- end }}
{{- if .Values.listen.auth.existingSecret }}
- {name: DUTYCYCLE_LISTEN_TOKEN_FILE, value: /etc/dutycycle/listen-auth/token}
{{- end }}
{{- end }}

{{- define "dutycycle.listenMounts" -}}
{{- if .Values.listen.tls.existingSecret }}
- {name: listen-tls, mountPath: /etc/dutycycle/listen-tls, readOnly: true}
{{- end }}
{{- if .Values.listen.auth.existingSecret }}
- {name: listen-auth, mountPath: /etc/dutycycle/listen-auth, readOnly: true}
{{- end }}
{{- end }}

{{- define "dutycycle.listenVolumes" -}}
{{- with .Values.listen.tls.existingSecret }}
- name: listen-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
{{- end }}
{{- with .Values.listen.auth }}
{{- if .existingSecret }}
- name: listen-auth
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
    items: [{key: {{ .tokenKey | quote }}, path: token}]
{{- end }}
{{- end }}
{{- end }}

{{- define "dutycycle.ports" -}}
- {name: metrics, containerPort: {{ .Values.listen.port }}, protocol: TCP}
{{- end }}

{{- define "dutycycle.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* The kinds that may own pods, each with the verbs given: (list . (list "get")). */}}
{{- define "dutycycle.ownerRules" -}}
{{- $verbs := index . 1 | toJson -}}
- {apiGroups: [apps], resources: [deployments, replicasets, statefulsets, daemonsets], verbs: {{ $verbs }}}
- {apiGroups: [batch], resources: [jobs, cronjobs], verbs: {{ $verbs }}}
- {apiGroups: [""], resources: [replicationcontrollers], verbs: {{ $verbs }}}
{{- range (index . 0).Values.rbac.jobKinds }}
- {apiGroups: {{ .apiGroups | toJson }}, resources: {{ .resources | toJson }}, verbs: {{ $verbs }}}
{{- end }}
{{- end }}

{{/* From a pod to its job, for collectors. Only metadata is used. */}}
{{- define "dutycycle.podRules" -}}
- {apiGroups: [""], resources: [pods], verbs: [list, watch, get]}
{{ include "dutycycle.ownerRules" (list . (list "get")) }}
{{- end }}

{{/* The ports that a Prometheus is reached at, as a JSON list: those of the values and that of its URL: (list . .Values.prometheus.url). */}}
{{- define "dutycycle.prometheusPorts" -}}
{{- $url := urlParse (index . 1) }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- $ports := list }}
{{- range append (index . 0).Values.networkPolicy.prometheusPorts $port }}{{ $ports = append $ports (int .) }}{{ end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{/* How a Prometheus is spoken to, from its values `auth` and `tls`: (list "prometheus" .Values.prometheus). */}}
{{- define "dutycycle.httpEnv" -}}
{{- $name := index . 0 }}{{ $prefix := $name | upper | replace "-" "_" | printf "DUTYCYCLE_%s" }}
{{- with (index . 1).auth }}
{{- if and .existingSecret .username }}
- {name: {{ $prefix }}_USERNAME, value: {{ .username | quote }}}
- {name: {{ $prefix }}_PASSWORD_FILE, value: /etc/dutycycle/{{ $name }}/secret}
{{- else if .existingSecret }}
- {name: {{ $prefix }}_TOKEN_FILE, value: /etc/dutycycle/{{ $name }}/secret}
{{- end }}
{{- end }}
{{- if (index . 1).tls.caSecret }}
- {name: {{ $prefix }}_CA, value: /etc/dutycycle/{{ $name }}-ca/ca.crt}
{{- end }}
{{- end }}

{{- define "dutycycle.httpMounts" -}}
{{- $name := index . 0 }}
{{- if (index . 1).auth.existingSecret }}
- {name: {{ $name }}-auth, mountPath: /etc/dutycycle/{{ $name }}, readOnly: true}
{{- end }}
{{- if (index . 1).tls.caSecret }}
- {name: {{ $name }}-ca, mountPath: /etc/dutycycle/{{ $name }}-ca, readOnly: true}
{{- end }}
{{- end }}

{{- define "dutycycle.httpVolumes" -}}
{{- $name := index . 0 }}
{{- with (index . 1).auth }}
{{- if .existingSecret }}
- name: {{ $name }}-auth
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
    items: [{key: {{ ternary .passwordKey .tokenKey (ne .username "") | quote }}, path: secret}]
{{- end }}
{{- end }}
{{- with (index . 1).tls }}
{{- if .caSecret }}
- name: {{ $name }}-ca
  secret:
    secretName: {{ .caSecret }}
    defaultMode: 0440
    items: [{key: {{ .caKey | quote }}, path: ca.crt}]
{{- end }}
{{- end }}
{{- end }}

{{/* PodDisruptionBudget and HorizontalPodAutoscaler of a Deployment: (list . "streams" .Values.streams). */}}
{{- define "dutycycle.scaling" -}}
{{- $root := index . 0 }}{{ $component := index . 1 }}{{ $values := index . 2 }}
{{- $name := printf "%s-%s" (include "dutycycle.name" $root) $component }}
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "dutycycle.labels" (list $root $component) | nindent 4 }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  # A worker that is not ready holds nothing that an eviction could harm.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "dutycycle.selector" (list $root $component) | nindent 6 }}
{{- end }}
{{- with $values.autoscaling }}
{{- if .enabled }}
{{- $most := min .maxReplicas $root.Values.kafka.partitions }}
{{- if gt (int $values.replicas) (int $most) }}
{{- fail (printf "%s.replicas is %v, but kafka.partitions and %s.autoscaling.maxReplicas allow %v: more workers than partitions do nothing" $component $values.replicas $component $most) }}
{{- end }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "dutycycle.labels" (list $root $component) | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $name }}}
  minReplicas: {{ $values.replicas }}
  maxReplicas: {{ $most }}
  metrics:
    - type: External
      external:
        metric:
          name: {{ .metricName }}
          selector:
            matchLabels:
              {{- toYaml .metricLabels | nindent 14 }}
        target: {type: AverageValue, averageValue: {{ .targetLagPerReplica | quote }}}
  behavior:
    # Each change moves partitions, and state is read anew: grow soon, shrink late.
    scaleUp: {stabilizationWindowSeconds: 60}
    scaleDown:
      stabilizationWindowSeconds: 900
      policies: [{type: Pods, value: 1, periodSeconds: 300}]
{{- end }}
{{- end }}
{{- end }}

{{/* The seconds of a duration such as 500ms, 60s or 1h. */}}
{{- define "dutycycle.seconds" -}}
{{- $units := dict "ms" 0.001 "" 1.0 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 }}
{{- mulf (regexFind "^[0-9.]+" . | float64) (regexFind "[a-z]*$" . | get $units) }}
{{- end }}
