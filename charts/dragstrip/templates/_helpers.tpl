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

{{/* A reference in the registry of the values, if they set one, instead of its own. */}}
{{- define "dragstrip.inRegistry" -}}
{{- $root := index . 0 }}
{{- $reference := index . 1 }}
{{- with $root.Values.image.registry -}}
{{ trimSuffix "/" . }}/{{ regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $reference "" }}
{{- else -}}
{{ $reference }}
{{- end }}
{{- end }}

{{/* Reference of the image with this key: by digest if the values set one, otherwise by tag. */}}
{{- define "dragstrip.image" -}}
{{- $root := index . 0 }}
{{- $key := index . 1 }}
{{- $image := include "dragstrip.inRegistry" (list $root (index $root.Values.image $key)) }}
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
{{ include "dragstrip.labelsWith" (list . dict) }}
{{- end }}

{{/*
The same and others. As one map, since a key that stands twice is an error for the API server's strict
validation and for server-side apply: the chart's own labels count before the others, and these before
commonLabels.
*/}}
{{- define "dragstrip.labelsWith" -}}
{{- $root := index . 0 }}
{{- $own := dict
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- $own = merge $own (include "dragstrip.selector" $root | fromYaml) }}
{{- toYaml (merge $own (deepCopy (index . 1)) (deepCopy $root.Values.commonLabels)) }}
{{- end }}

{{/* Labels of the objects of `helm test`: not those of the operator's component, which its Service selects. */}}
{{- define "dragstrip.testLabels" -}}
{{ include "dragstrip.labels" . | fromYaml | merge (dict "app.kubernetes.io/component" "test") | toYaml }}
{{- end }}

{{- define "dragstrip.monitorLabels" -}}
{{ include "dragstrip.labelsWith" (list . .Values.monitors.labels) }}
{{- end }}

{{/* Where the operator's pods and those of tests may run: its image is for Linux. */}}
{{- define "dragstrip.nodeSelector" -}}
{{ toYaml (merge (deepCopy .Values.nodeSelector) (dict "kubernetes.io/os" "linux")) }}
{{- end }}

{{/* Whether the platform chooses the users of pods: "true" or nothing. */}}
{{- define "dragstrip.platformUser" -}}
{{- if or (eq .Values.podUser "Platform") (and (eq .Values.podUser "Auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}
true
{{- end }}
{{- end }}

{{/* securityContext of the chart's pods. */}}
{{- define "dragstrip.podSecurity" -}}
runAsNonRoot: true
{{- if not (include "dragstrip.platformUser" .) }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Timeout and relabelings of a scrape's endpoint: root, timeout, own relabelings. */}}
{{- define "dragstrip.scrape" -}}
{{- $root := index . 0 }}
{{- with index . 1 }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with concat (index . 2) $root.Values.monitors.relabelings }}
relabelings:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with $root.Values.monitors.metricRelabelings }}
metricRelabelings:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* The Datastore of a server's series. */}}
{{- define "dragstrip.datastoreRelabeling" -}}
- sourceLabels: [__meta_kubernetes_pod_label_dragstrip_dev_datastore]
  targetLabel: datastore
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
