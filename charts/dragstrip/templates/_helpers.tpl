{{/* Chart name, cut so that longer names that contain it stay valid. */}}
{{- define "dragstrip.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Prefix of the names of all objects of the release: dragstrip for a release of that name. */}}
{{- define "dragstrip.fullname" -}}
{{- $name := include "dragstrip.name" . }}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Name of the operator's own objects. */}}
{{- define "dragstrip.operator" -}}
{{ include "dragstrip.fullname" . }}-operator
{{- end }}

{{- define "dragstrip.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "dragstrip.operator" .) }}
{{- end }}

{{/* Name of the account that may read the operator's metrics, and of its role and token. */}}
{{- define "dragstrip.metrics" -}}
{{ include "dragstrip.fullname" . }}-metrics
{{- end }}

{{/* Name of the Lease by which the replicas elect a leader; no Datastore's Lease has a dot in its name. */}}
{{- define "dragstrip.leaderLease" -}}
{{ include "dragstrip.operator" . }}.leader
{{- end }}

{{- define "dragstrip.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Reference of the image with this key: by digest if the values set one, otherwise by tag. */}}
{{- define "dragstrip.image" -}}
{{- $root := index . 0 }}
{{- $key := index . 1 }}
{{- $image := index $root.Values.image $key }}
{{- with index $root.Values.image.digests $key -}}
{{ $image }}@{{ . }}
{{- else -}}
{{ $image }}:{{ include "dragstrip.tag" $root }}
{{- end }}
{{- end }}

{{/* Immutable in a Deployment: another selector would mean another Deployment. */}}
{{- define "dragstrip.selector" -}}
app.kubernetes.io/name: {{ include "dragstrip.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{/* Labels of every object of the chart. */}}
{{- define "dragstrip.labels" -}}
{{ include "dragstrip.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dragstrip.monitorLabels" -}}
{{ include "dragstrip.labels" . }}
{{- with .Values.monitors.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where monitors look for the pods of runs and Datastores. */}}
{{- define "dragstrip.monitoredNamespaces" -}}
{{- if .Values.ownNamespaceOnly -}}
matchNames:
- {{ .Release.Namespace }}
{{- else -}}
any: true
{{- end }}
{{- end }}

{{/* The number of seconds in an interval such as 1s. */}}
{{- define "dragstrip.seconds" -}}
{{- if not (regexMatch "^[0-9]+s$" .) }}{{ fail (printf "monitors.liveInterval.clients is %q: give whole seconds, such as 1s" .) }}{{ end -}}
{{- trimSuffix "s" . -}}
{{- end }}
