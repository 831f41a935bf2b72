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
