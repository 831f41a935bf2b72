# From a stream of watch events of pods or Endpoints to lists of scrape targets, one
# line after each event, with the labels of Prometheus' own discovery of Kubernetes.

def label_name: gsub("[^a-zA-Z0-9_]"; "_");

# Labels of an object, as discovery spells them.
def labels_of($kind):
  .metadata.labels // {} | to_entries | map(
    {key: "__meta_kubernetes_\($kind)_label_\(.key | label_name)", value},
    {key: "__meta_kubernetes_\($kind)_labelpresent_\(.key | label_name)", value: "true"}
  ) | from_entries;

def pod_targets:
  . as $pod | select(.status.podIP)
  | .spec | (.containers + [.initContainers // [] | .[] | select(.restartPolicy == "Always")])[] | . as $container
  | .ports // [] | .[]
  | {
    targets: ["\($pod.status.podIP):\(.containerPort)"],
    labels: ({
      __meta_kubernetes_namespace: $pod.metadata.namespace,
      __meta_kubernetes_pod_name: $pod.metadata.name,
      __meta_kubernetes_pod_phase: $pod.status.phase,
      __meta_kubernetes_pod_container_name: $container.name,
      __meta_kubernetes_pod_container_port_name: (.name // ""),
      __meta_kubernetes_pod_container_port_number: (.containerPort | tostring)
    } + ($pod | labels_of("pod")))
  };

# Endpoints carry the labels of their Service.
def endpoints_targets:
  . as $endpoints | .subsets // [] | .[] | .ports as $ports | .addresses // [] | .[] | . as $address | $ports // [] | .[]
  | {
    targets: ["\($address.ip):\(.port)"],
    labels: ({
      __meta_kubernetes_namespace: $endpoints.metadata.namespace,
      __meta_kubernetes_service_name: $endpoints.metadata.name,
      __meta_kubernetes_endpoint_port_name: (.name // ""),
      __meta_kubernetes_pod_name: ($address.targetRef.name // "")
    } + ($endpoints | labels_of("service")))
  };

foreach inputs as {$type, $object} ({};
  ($object.metadata | "\(.namespace)/\(.name)") as $name
  | if $type == "DELETED" then del(.[$name])
    else .[$name] = [$object | if .kind == "Pod" then pod_targets else endpoints_targets end] end;
  [.[][]])
