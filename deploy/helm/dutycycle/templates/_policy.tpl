{{/* Refuses a webhook.policy that the webhook would refuse at its start; policy.json has what it goes by. */}}
{{- define "dutycycle.checkPolicy" -}}
{{- $limits := .Files.Get "policy.json" | fromJson }}
{{- $policy := fromToml .Values.webhook.policy }}
{{- if hasKey $policy "Error" }}
{{- fail (printf "webhook.policy: give TOML, as docs/scheduling.md shows, or nothing for the defaults: %v" $policy.Error) }}
{{- end }}
{{- $numbers := deepCopy $limits.defaults }}
{{- range $name, $value := omit $policy "shares" "bands" }}
{{- if not (hasKey $limits.ranges $name) }}
{{- fail (printf "webhook.policy: there is no %s: expected one of %s, shares, bands" $name (keys $limits.ranges | sortAlpha | join ", ")) }}
{{- end }}
{{- $range := index $limits.ranges $name }}
{{- if not (or (kindIs "int64" $value) (kindIs "float64" $value)) }}
{{- fail (printf "webhook.policy: %s: %v: expected a number" $name $value) }}
{{- end }}
{{- $number := float64 $value }}
{{- if not (and (ge $number (index $range 0)) (le $number (index $range 1))) }}
{{- fail (printf "webhook.policy: %s: %v: expected a number from %v to %v" $name $value (index $range 0) (index $range 1)) }}
{{- end }}
{{- $_ := set $numbers $name $number }}
{{- end }}

{{- $shares := dict }}{{ if hasKey $policy "shares" }}{{ $shares = $policy.shares }}{{ end }}
{{- if not (kindIs "map" $shares) }}{{ fail "webhook.policy: shares: expected numbers by namespace or team" }}{{ end }}
{{- range $name, $value := $shares }}
{{- if not (or (kindIs "int64" $value) (kindIs "float64" $value)) }}
{{- fail (printf "webhook.policy: shares: %s: %v: expected a number" $name $value) }}
{{- end }}
{{- if not (and (gt (float64 $value) 0.0) (lt (float64 $value) 1e308)) }}
{{- fail (printf "webhook.policy: shares: %s: %v: expected a number above 0" $name $value) }}
{{- end }}
{{- end }}

{{- $bands := $limits.bands }}{{ if hasKey $policy "bands" }}{{ $bands = $policy.bands }}{{ end }}
{{- if not (kindIs "map" $bands) }}{{ fail "webhook.policy: bands: expected pairs of priorities by class" }}{{ end }}
{{- if not (hasKey $bands "") }}{{ fail "webhook.policy: bands: expected one named \"\", for pods of any other class, in a table [bands]" }}{{ end }}
{{- $epoch := $numbers.epoch_s | default $limits.epoch }}
{{- $now := now | unixEpoch | float64 }}
{{- if gt $epoch $now }}{{ fail (printf "webhook.policy: epoch_s: %v: is in the future; give one before now" $numbers.epoch_s) }}{{ end }}
{{- $used := floor (divf (subf (addf $now $numbers.longest_s) $epoch) $numbers.quantum_s) }}
{{- $known := list }}
{{- range $name, $pair := $bands }}
{{- if not (and (kindIs "slice" $pair) (eq (len $pair) 2)) }}
{{- fail (printf "webhook.policy: bands: %q: %v: expected [lowest, highest], whole numbers" $name $pair) }}
{{- end }}
{{- range $pair }}
{{- if not (or (kindIs "int64" .) (not $policy.bands)) }}
{{- fail (printf "webhook.policy: bands: %q: %v: expected [lowest, highest], whole numbers" $name $pair) }}
{{- end }}
{{- end }}
{{- $low := float64 (index $pair 0) }}{{ $high := float64 (index $pair 1) }}
{{- if not (and (ge $low (mulf -1.0 $limits.highest)) (lt $low $high) (le $high $limits.highest)) }}
{{- fail (printf "webhook.policy: bands: %q: %v: expected a range that ends at %.0f or below it" $name $pair $limits.highest) }}
{{- end }}
{{- range $known }}
{{- if and (le $low (index . 1)) (le (index . 0) $high) }}
{{- fail (printf "webhook.policy: bands: %q: %v: shares priorities with another band" $name $pair) }}
{{- end }}
{{- end }}
{{- $known = append $known (list $low $high) }}
{{- $span := subf $high $low }}
{{- if lt (divf (mulf $span $numbers.quantum_s) $limits.yearSeconds) $limits.years }}
{{- fail (printf "webhook.policy: bands: %q: %v: lasts less than %v years at a quantum of %v s: widen it, or raise quantum_s" $name $pair $limits.years $numbers.quantum_s) }}
{{- end }}
{{- if ge $used $span }}
{{- fail (printf "webhook.policy: bands: %q: %v: is used up since epoch_s %.0f: give one that is nearer to now" $name $pair $epoch) }}
{{- end }}
{{- end }}
{{- end }}
