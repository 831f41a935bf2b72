{{- define "dragstrip.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "dragstrip.selector" -}}
app.kubernetes.io/name: dragstrip
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "dragstrip.labels" -}}
{{ include "dragstrip.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "dragstrip.monitorLabels" -}}
{{ include "dragstrip.labels" . }}
{{- with .Values.monitors.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The number of seconds in an interval such as 1s. */}}
{{- define "dragstrip.seconds" -}}
{{- if not (regexMatch "^[0-9]+s$" .) }}{{ fail (printf "monitors.liveInterval.clients is %q: give whole seconds, such as 1s" .) }}{{ end -}}
{{- trimSuffix "s" . -}}
{{- end }}

{{/* Name of the operator's own objects. */}}
{{- define "dragstrip.operator" -}}
dragstrip-operator
{{- end }}

{{- define "dragstrip.serviceAccount" -}}
{{ include "dragstrip.operator" . }}
{{- end }}
