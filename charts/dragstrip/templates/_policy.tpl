{{/* CEL: the users whose rights the policies do not check: this release's operator and `policy.trusted`. */}}
{{- define "dragstrip.policy.trusted" -}}
{{- $operator := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "dragstrip.serviceAccount" .) -}}
{{ prepend .Values.policy.trusted $operator | toJson }}
{{- end }}

{{/* CEL: the Secrets and ConfigMaps that this list of environment variables names, such as ["secrets/a"]. */}}
{{- define "dragstrip.policy.fromEnvironment" -}}
(!has({{ . }}) ? [] : {{ . }}.filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, "secrets/" + e.valueFrom.secretKeyRef.name)
  + {{ . }}.filter(e, has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)).map(e, "configmaps/" + e.valueFrom.configMapKeyRef.name))
{{- end }}

{{/* CEL: the Secrets in the pod settings of this parent. */}}
{{- define "dragstrip.policy.fromPod" -}}
(has({{ . }}.pod) && has({{ . }}.pod.imagePullSecrets) ? {{ . }}.pod.imagePullSecrets.map(s, "secrets/" + s.name) : [])
{{- end }}

{{/* CEL: the Secrets and ConfigMaps that the Datastore's spec at this path names. */}}
{{- define "dragstrip.policy.fromDatastore" -}}
(has({{ . }}.authSecretRef) ? ["secrets/" + {{ . }}.authSecretRef.name] : [])
  + (has({{ . }}.tls) ? ["secrets/" + {{ . }}.tls.secretName] : [])
  + (has({{ . }}.tls) && has({{ . }}.tls.clientSecretName) ? ["secrets/" + {{ . }}.tls.clientSecretName] : [])
  + {{ include "dragstrip.policy.fromEnvironment" (printf "%s.env" .) }}
  + {{ include "dragstrip.policy.fromPod" . }}
{{- end }}

{{/* CEL: the Secrets that the external target of a run names. */}}
{{- define "dragstrip.policy.fromExternal" -}}
(!has(object.spec.target.external) ? [] :
  (has(object.spec.target.external.authSecretRef) ? ["secrets/" + object.spec.target.external.authSecretRef.name] : [])
  + (has(object.spec.target.external.tls) && has(object.spec.target.external.tls.caSecretName) ? ["secrets/" + object.spec.target.external.tls.caSecretName] : [])
  + (has(object.spec.target.external.tls) && has(object.spec.target.external.tls.clientSecretName) ? ["secrets/" + object.spec.target.external.tls.clientSecretName] : []))
{{- end }}

{{/*
CEL: the Secrets and ConfigMaps that the exec phase with this index names. CEL cannot flatten lists of
lists; a run has at most 32 phases.
*/}}
{{- define "dragstrip.policy.fromPhase" -}}
{{- $exec := printf "object.spec.phases[%d].exec" . -}}
(object.spec.phases.size() <= {{ . }} || !has({{ $exec }}) ? [] : {{ include "dragstrip.policy.fromEnvironment" (printf "%s.env" $exec) }}
  + (has({{ $exec }}.files) ? {{ $exec }}.files.map(f, "configmaps/" + f.configMap) : []))
{{- end }}

{{/* The highest number of different Secrets and ConfigMaps in one object: each costs a query to the authorizer. */}}
{{- define "dragstrip.policy.mostReferences" -}}16{{- end }}

{{/*
Variables and validations on `variables.references`: the requester must be allowed to read each of them.
An expression may query the authorizer at most twice, so each name has an expression of its own: left0
holds all names, left1 those without the first, and so on. Messages cannot use the authorizer. `trusted`
is a condition, with ||, that replaces the rights.
*/}}
{{- define "dragstrip.policy.referenceVariables" -}}
{{- $most := int (include "dragstrip.policy.mostReferences" .) -}}
- name: readsAllSecrets
  expression: {{ .trusted }}authorizer.group("").resource("secrets").namespace(request.namespace).check("get").allowed()
- name: readsAllConfigMaps
  expression: {{ .trusted }}authorizer.group("").resource("configmaps").namespace(request.namespace).check("get").allowed()
- name: left0
  expression: variables.references
{{- range $index := until $most }}
- name: left{{ add1 $index }}
  expression: variables.left{{ $index }}.filter(r, r != variables.left{{ $index }}[0])
{{- end }}
{{- end }}

{{- define "dragstrip.policy.referenceValidations" -}}
{{- $most := int (include "dragstrip.policy.mostReferences" .) -}}
{{- range $index := until $most }}
- expression: |-
    variables.left{{ $index }}.size() == 0
      || variables.left{{ $index }}[0].startsWith("secrets/") && variables.readsAllSecrets
      || variables.left{{ $index }}[0].startsWith("configmaps/") && variables.readsAllConfigMaps
      || authorizer.group("").resource(variables.left{{ $index }}[0].split("/")[0]).namespace(request.namespace)
        .name(variables.left{{ $index }}[0].split("/")[1]).check("get").allowed()
  messageExpression: |-
    "you may not read " + variables.left{{ $index }}[0] + " in namespace " + request.namespace + ", which the spec names: get permission to read it, or let someone who may read it create this object"
  reason: Forbidden
{{- end }}
- expression: variables.left{{ $most }}.size() == 0 || variables.readsAllSecrets && variables.readsAllConfigMaps
  message: the spec names more than {{ $most }} different Secrets and ConfigMaps, more than can be checked
  reason: Forbidden
{{- end }}

{{/* CEL: whether `name` is in `list`, where a name may end in *. */}}
{{- define "dragstrip.policy.listed" -}}
{{ toJson .list }}.exists(n, n.endsWith("*") ? {{ .name }}.startsWith(n.substring(0, n.size() - 1)) : {{ .name }} == n)
{{- end }}

{{/* Validations that all kinds share, on their variables. */}}
{{- define "dragstrip.policy.commonValidations" -}}
{{- $policy := .Values.policy }}
{{- with $policy.secrets.names }}
- expression: |-
    variables.references.all(r, !r.startsWith("secrets/")
      || {{ include "dragstrip.policy.listed" (dict "name" "r.substring(8)" "list" .) }})
  message: 'this cluster''s policy lets Datastores, BenchmarkRuns and BenchmarkSuites name only Secrets {{ join ", " . }}'
  reason: Forbidden
{{- end }}
{{- with $policy.images }}
- expression: |-
    variables.images.all(i, {{ toJson . }}.exists(p,
      i == p || i.startsWith(p.endsWith("/") ? p : p + "/") || i.startsWith(p + ":") || i.startsWith(p + "@")))
  messageExpression: |-
    "this cluster's policy allows images of " + {{ toJson (join ", " .) }} + " only; the spec names " + variables.images.join(", ")
  reason: Forbidden
{{- end }}
{{- if not (has "*" $policy.tolerations) }}
- expression: |-
    variables.placements.all(p, !has(p.tolerations) || p.tolerations.all(t, has(t.key) && t.key in {{ toJson $policy.tolerations }}))
  message: 'this cluster''s policy allows tolerations of these taints only: {{ join ", " $policy.tolerations | default "none" }}'
  reason: Forbidden
{{- end }}
{{- if not $policy.hostNetwork }}
- expression: variables.createsPods || !variables.settings.exists(s, has(s.hostNetwork) && s.hostNetwork)
  message: hostNetwork is for users who may create pods in this namespace (policy.hostNetwork of Dragstrip's chart)
  reason: Forbidden
{{- end }}
{{- if not $policy.podAffinity }}
- expression: |-
    variables.createsPods || !variables.settings.exists(s, has(s.affinity) && (has(s.affinity.podAffinity) || has(s.affinity.podAntiAffinity)))
  message: podAffinity and podAntiAffinity are for users who may create pods in this namespace (policy.podAffinity of Dragstrip's chart)
  reason: Forbidden
{{- end }}
{{- range $field, $list := dict "serviceAccountName" "serviceAccounts" "priorityClassName" "priorityClasses" "runtimeClassName" "runtimeClasses" "seccompProfile" "seccompProfiles" }}
- expression: |-
    variables.createsPods || variables.settings.all(s, !has(s.{{ $field }})
      || {{ include "dragstrip.policy.listed" (dict "name" (printf "s.%s" $field) "list" (get $policy $list)) }})
  message: this {{ $field }} is for users who may create pods in this namespace (policy.{{ $list }} of Dragstrip's chart)
  reason: Forbidden
{{- end }}
{{- range $field, $list := dict "labels" "podLabels" "annotations" "podAnnotations" }}
- expression: |-
    variables.createsPods || variables.settings.all(s, !has(s.{{ $field }}) || s.{{ $field }}.all(k,
      {{ include "dragstrip.policy.listed" (dict "name" "k" "list" (get $policy $list)) }}))
  message: these {{ $field }} of pods are for users who may create pods in this namespace (policy.{{ $list }} of Dragstrip's chart)
  reason: Forbidden
{{- end }}
# Without a seccomp profile, the system calls of the image are unrestricted.
- expression: |-
    variables.createsPods || !variables.servers.exists(d, has(d.image) && has(d.ioUring) && d.ioUring == "Require" && !(has(d.pod) && has(d.pod.seccompProfile)))
  message: "ioUring: Require with an image of your own needs pod.seccompProfile, or the right to create pods in this namespace"
  reason: Forbidden
{{- end }}

{{/* Policies are cluster-wide objects: each release has policies of its own. */}}
{{- define "dragstrip.policy.name" -}}
{{ include "dragstrip.operator" . }}-{{ .Release.Namespace }}
{{- end }}
