# From ServiceMonitors and PodMonitors to a Prometheus configuration (JSON is YAML),
# as the Prometheus operator makes it. Input: an array of Kubernetes objects.
# Arguments: $namespace of the release, $token, the file with the token of scrapes that need one,
# $targets, the directory that discovery writes to:
# Debian's Prometheus is built without discovery of Kubernetes, see discovery.jq.

def label_name: gsub("[^a-zA-Z0-9_]"; "_");
# The operator's spelling to Prometheus' own.
def snake: gsub("(?<letter>[A-Z])"; "_\(.letter | ascii_downcase)");
def relabeling: with_entries(.key |= snake);

def keep($sources; $regex): {action: "keep", source_labels: $sources, regex: $regex};
def copy($source; $target): {source_labels: [$source], target_label: $target};

# A selector's rules on labels of $kind, pod or service.
def selected($kind):
  def labelled($name): "__meta_kubernetes_\($kind)_label_\($name | label_name)";
  def present($name): "__meta_kubernetes_\($kind)_labelpresent_\($name | label_name)";
  (.matchLabels // {} | to_entries[] | keep([labelled(.key), present(.key)]; "(\(.value));true")),
  (.matchExpressions // [] | .[] |
    if .operator == "In" then keep([labelled(.key), present(.key)]; "(\(.values | join("|")));true")
    elif .operator == "NotIn" then {action: "drop", source_labels: [labelled(.key), present(.key)], regex: "(\(.values | join("|")));true"}
    elif .operator == "Exists" then keep([present(.key)]; "true")
    else {action: "drop", source_labels: [present(.key)], regex: "true"} end);

def within($own):
  if .any then empty else keep(["__meta_kubernetes_namespace"]; "(\(.matchNames // [$own] | join("|")))") end;

def scraping:
  {
    scrape_interval: (.interval // "30s"),
    metrics_path: (.path // "/metrics"),
    scheme: (.scheme // "http" | ascii_downcase),
    honor_labels: (.honorLabels // false),
    honor_timestamps: (.honorTimestamps // true),
    metric_relabel_configs: (.metricRelabelings // [] | map(relabeling))
  } + (if .authorization then {authorization: {credentials_file: $token}} else {} end)
  + (if .scrapeTimeout then {scrape_timeout: .scrapeTimeout} else {} end);

# Prometheus lists pods that ended; the operator leaves them out.
def not_ended: {action: "drop", source_labels: ["__meta_kubernetes_pod_phase"], regex: "(Failed|Succeeded)"};

def own_labels($kind; $names): $names // [] | .[] |
  {source_labels: ["__meta_kubernetes_\($kind)_label_\(label_name)"], target_label: label_name, regex: "(.+)", replacement: "${1}"};

def pod_jobs:
  . as $monitor | (.metadata.namespace // $namespace) as $own
  | .spec.podMetricsEndpoints | to_entries[] | .key as $index | .value as $endpoint
  | ($endpoint | scraping) + {
    job_name: "podMonitor/\($own)/\($monitor.metadata.name)/\($index)",
    file_sd_configs: [{files: ["\($targets)/pods.json"]}],
    relabel_configs: [
      ($monitor.spec.namespaceSelector // {} | within($own)),
      ($monitor.spec.selector | selected("pod")),
      (if $endpoint.port then keep(["__meta_kubernetes_pod_container_port_name"]; $endpoint.port)
       else keep(["__meta_kubernetes_pod_container_port_number"]; $endpoint.portNumber // $endpoint.targetPort | tostring) end),
      not_ended,
      copy("__meta_kubernetes_namespace"; "namespace"),
      copy("__meta_kubernetes_pod_container_name"; "container"),
      copy("__meta_kubernetes_pod_name"; "pod"),
      own_labels("pod"; $monitor.spec.podTargetLabels),
      {target_label: "job", replacement: "\($own)/\($monitor.metadata.name)"},
      {target_label: "endpoint", replacement: ($endpoint.port // $endpoint.portNumber // $endpoint.targetPort | tostring)},
      ($endpoint.relabelings // [] | .[] | relabeling)
    ]
  };

def service_jobs:
  . as $monitor | (.metadata.namespace // $namespace) as $own
  | .spec.endpoints | to_entries[] | .key as $index | .value as $endpoint
  | ($endpoint | scraping) + {
    job_name: "serviceMonitor/\($own)/\($monitor.metadata.name)/\($index)",
    file_sd_configs: [{files: ["\($targets)/endpoints.json"]}],
    relabel_configs: [
      ($monitor.spec.namespaceSelector // {} | within($own)),
      ($monitor.spec.selector | selected("service")),
      (if $endpoint.port then keep(["__meta_kubernetes_endpoint_port_name"]; $endpoint.port)
       else keep(["__meta_kubernetes_pod_container_port_number"]; $endpoint.targetPort | tostring) end),
      not_ended,
      copy("__meta_kubernetes_namespace"; "namespace"),
      copy("__meta_kubernetes_service_name"; "service"),
      copy("__meta_kubernetes_pod_name"; "pod"),
      copy("__meta_kubernetes_pod_container_name"; "container"),
      own_labels("service"; $monitor.spec.targetLabels),
      own_labels("pod"; $monitor.spec.podTargetLabels),
      copy("__meta_kubernetes_service_name"; "job"),
      (if $monitor.spec.jobLabel then own_labels("service"; [$monitor.spec.jobLabel]) | .target_label = "job" else empty end),
      {target_label: "endpoint", replacement: ($endpoint.port // $endpoint.targetPort | tostring)},
      ($endpoint.relabelings // [] | .[] | relabeling)
    ]
  };

map(select(.kind == "PodMonitor" or .kind == "ServiceMonitor")) as $monitors
| if $monitors == [] then error("the chart renders no ServiceMonitor and no PodMonitor") else . end
| {
    global: {scrape_interval: "30s", evaluation_interval: "5s"},
    scrape_configs: [$monitors[] | if .kind == "PodMonitor" then pod_jobs else service_jobs end]
  }
