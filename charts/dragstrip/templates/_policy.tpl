{{/* Whether the apiserver is to hold the policy: it has ValidatingAdmissionPolicies, or the values say so. */}}
{{- define "dragstrip.policy.admission" -}}
{{- $has := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if or (eq .Values.policy.admission "Always") (and $has (eq .Values.policy.admission "Auto")) }}true{{ end -}}
{{- end }}

{{/* The policy as the operator is told it. */}}
{{- define "dragstrip.policy.json" -}}
{{- $limits := .Values.policy.limits -}}
{{- if not $limits.timeout }}{{ $limits = omit $limits "timeout" }}{{ end -}}
{{- $held := eq (include "dragstrip.policy.admission" .) "true" -}}
{{- merge (dict "heldByApiserver" $held "limits" $limits) (omit .Values.policy "limits" "admission" "trusted") | toJson }}
{{- end }}

{{/* CEL: whose objects are not checked. What the operator makes for a run was checked on the run. */}}
{{- define "dragstrip.policy.trusted" -}}
{{- $operator := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "dragstrip.serviceAccount" .) -}}
{{ prepend .Values.policy.trusted $operator | toJson }}
{{- end }}

{{/* CEL: the Secrets and ConfigMaps that the variables `list` refer to, such as ["secrets/a"]. */}}
{{- define "dragstrip.policy.fromEnvironment" -}}
(!has({{ . }}) ? [] : {{ . }}.filter(e, has(e.valueFrom) && has(e.valueFrom.secretKeyRef)).map(e, "secrets/" + e.valueFrom.secretKeyRef.name)
  + {{ . }}.filter(e, has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)).map(e, "configmaps/" + e.valueFrom.configMapKeyRef.name))
{{- end }}

{{/* CEL: the Secrets of pod settings, whose parent is given. */}}
{{- define "dragstrip.policy.fromPod" -}}
(has({{ . }}.pod) && has({{ . }}.pod.imagePullSecrets) ? {{ . }}.pod.imagePullSecrets.map(s, "secrets/" + s.name) : [])
{{- end }}

{{/* CEL: what the Datastore's spec at this path refers to. */}}
{{- define "dragstrip.policy.fromDatastore" -}}
(has({{ . }}.authSecretRef) ? ["secrets/" + {{ . }}.authSecretRef.name] : [])
  + (has({{ . }}.tls) ? ["secrets/" + {{ . }}.tls.secretName] : [])
  + (has({{ . }}.tls) && has({{ . }}.tls.clientSecretName) ? ["secrets/" + {{ . }}.tls.clientSecretName] : [])
  + {{ include "dragstrip.policy.fromEnvironment" (printf "%s.env" .) }}
  + {{ include "dragstrip.policy.fromPod" . }}
{{- end }}

{{/* CEL: what the external target of a run refers to. */}}
{{- define "dragstrip.policy.fromExternal" -}}
(!has(object.spec.target.external) ? [] :
  (has(object.spec.target.external.authSecretRef) ? ["secrets/" + object.spec.target.external.authSecretRef.name] : [])
  + (has(object.spec.target.external.tls) && has(object.spec.target.external.tls.caSecretName) ? ["secrets/" + object.spec.target.external.tls.caSecretName] : [])
  + (has(object.spec.target.external.tls) && has(object.spec.target.external.tls.clientSecretName) ? ["secrets/" + object.spec.target.external.tls.clientSecretName] : []))
{{- end }}

{{/*
CEL: what the exec phase with this index refers to. A list of lists cannot be made one in CEL; a run has
at most 32 phases.
*/}}
{{- define "dragstrip.policy.fromPhase" -}}
{{- $exec := printf "object.spec.phases[%d].exec" . -}}
(object.spec.phases.size() <= {{ . }} || !has({{ $exec }}) ? [] : {{ include "dragstrip.policy.fromEnvironment" (printf "%s.env" $exec) }}
  + (has({{ $exec }}.files) ? {{ $exec }}.files.map(f, "configmaps/" + f.configMap) : []))
{{- end }}

{{/* The most different Secrets and ConfigMaps that one object may name: each is a question to the authorizer. */}}
{{- define "dragstrip.policy.mostReferences" -}}16{{- end }}

{{/*
Variables and validations on `variables.references`: each is one that the requester may read. An
expression may ask the authorizer twice at most, so that each name has one of its own: left0 are all
names, left1 those without the first, and so on. Messages cannot use what asks the authorizer.
*/}}
{{- define "dragstrip.policy.referenceVariables" -}}
{{- $most := int (include "dragstrip.policy.mostReferences" .) -}}
- name: readsAllSecrets
  expression: authorizer.group("").resource("secrets").namespace(request.namespace).check("get").allowed()
- name: readsAllConfigMaps
  expression: authorizer.group("").resource("configmaps").namespace(request.namespace).check("get").allowed()
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
    "you may not read " + variables.left{{ $index }}[0] + " in namespace " + request.namespace + ", which the spec names: have whoever may read it make this object, or ask for get on it"
  reason: Forbidden
{{- end }}
- expression: variables.left{{ $most }}.size() == 0 || variables.readsAllSecrets && variables.readsAllConfigMaps
  message: the spec names more than {{ $most }} different Secrets and ConfigMaps, more than can be checked
  reason: Forbidden
{{- end }}

{{/* Validations of all kinds, on what their variables say of them. */}}
{{- define "dragstrip.policy.commonValidations" -}}
{{- $policy := .Values.policy }}
{{- with $policy.secrets.names }}
- expression: |-
    variables.references.all(r, !r.startsWith("secrets/") || {{ toJson . }}.exists(n,
      n.endsWith("*") ? r.substring(8).startsWith(n.substring(0, n.size() - 1)) : r.substring(8) == n))
  message: 'this cluster''s policy lets Datastores, BenchmarkRuns and BenchmarkSuites name only Secrets {{ join ", " . }}'
  reason: Forbidden
{{- end }}
{{- with $policy.images }}
- expression: |-
    variables.images.all(i, {{ toJson . }}.exists(p,
      i == p || i.startsWith(p.endsWith("/") ? p : p + "/") || i.startsWith(p + ":") || i.startsWith(p + "@")))
  messageExpression: |-
    "this cluster's policy allows images of " + {{ toJson (join ", " .) }} + " alone; the spec names " + variables.images.join(", ")
  reason: Forbidden
{{- end }}
{{- if not (has "*" $policy.tolerations) }}
- expression: |-
    variables.placements.all(p, !has(p.tolerations) || p.tolerations.all(t, has(t.key) && t.key in {{ toJson $policy.tolerations }}))
  message: 'this cluster''s policy allows tolerations of these taints alone: {{ join ", " $policy.tolerations | default "none" }}'
  reason: Forbidden
{{- end }}
{{- if not $policy.hostNetwork }}
- expression: variables.createsPods || !variables.settings.exists(s, has(s.hostNetwork) && s.hostNetwork)
  message: hostNetwork is for those who may create pods in this namespace (policy.hostNetwork of Dragstrip's chart)
  reason: Forbidden
{{- end }}
{{- if not (has "*" $policy.serviceAccounts) }}
- expression: |-
    variables.createsPods || variables.settings.all(s, !has(s.serviceAccountName) || s.serviceAccountName in {{ toJson $policy.serviceAccounts }})
  message: this serviceAccountName is for those who may create pods in this namespace (policy.serviceAccounts of Dragstrip's chart)
  reason: Forbidden
{{- end }}
{{- if not (has "*" $policy.priorityClasses) }}
- expression: |-
    variables.createsPods || variables.settings.all(s, !has(s.priorityClassName) || s.priorityClassName in {{ toJson $policy.priorityClasses }})
  message: this priorityClassName is for those who may create pods in this namespace (policy.priorityClasses of Dragstrip's chart)
  reason: Forbidden
{{- end }}
{{- end }}

{{/* Policies are the cluster's: releases in several namespaces have their own. */}}
{{- define "dragstrip.policy.name" -}}
{{ include "dragstrip.operator" . }}-{{ .Release.Namespace }}
{{- end }}
