{{/* What the templates share. Values that would give workers that cannot run are refused here, with what to write. */}}

{{- define "headrace.checked" -}}
{{- /* 52: a StatefulSet puts a hash after its name into a label of 63 characters. */}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$" .Release.Name) }}
{{- fail (printf "the release's name %q names Services and pods: a letter first, then at most 51 small letters, digits and -" .Release.Name) }}
{{- end }}
{{- $metrics := index .Values.properties "metrics.listeners" | default "" | toString }}
{{- if and .Values.serviceMonitor (not (regexMatch "http://[^,]*:9404 *(,|$)" $metrics)) }}
{{- fail (printf "serviceMonitor asks http at port 9404, but properties has metrics.listeners=%s; write metrics.listeners: http://:9404" $metrics) }}
{{- end }}
{{- end }}

{{- /* http or https: how REST is spoken at the port that probes and Services ask. */}}
{{- define "headrace.scheme" -}}
{{- $listeners := .Values.properties.listeners | default "http://:8083" | toString }}
{{- $found := regexFind "(?i)https?://[^,]*:8083 *(,|$)" $listeners }}
{{- if not $found }}
{{- fail (printf "properties has listeners=%s without port 8083, which probes and Services ask; write http://:8083 or https://:8083" $listeners) }}
{{- end }}
{{- regexFind "^https?" (lower $found) }}
{{- end }}

{{- /* Longer than the drain, of 30 s at most, and task.shutdown.graceful.timeout.ms together. */}}
{{- define "headrace.grace" -}}
{{- add 55 (div (add 999 (index .Values.properties "task.shutdown.graceful.timeout.ms" | default 5000 | int64)) 1000) }}
{{- end }}

{{- define "headrace.properties" -}}
{{- range $name, $value := .Values.properties }}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) }}
{{- fail (printf "properties.%s has to be one text. A list is a text with commas; with --set the dots in a name need backslashes, as in properties.group\\.id=connect" $name) }}
{{- else if kindIs "string" $value }}
{{- /* Java reads ISO-8859-1 with escapes, which are those of Go. */}}
{{- $escaped := printf "%+q" $value | trimPrefix "\"" | trimSuffix "\"" | replace "\\\"" "\"" }}
{{ $name }}={{ regexReplaceAll "^ " $escaped "\\ " }}
{{- else if not (kindIs "invalid" $value) }}
{{ $name }}={{ toJson $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "headrace.labels" -}}
{{- with .Values.labels }}
  labels:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}
