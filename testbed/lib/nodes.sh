# shellcheck shell=bash
# Several nodes on one machine: each has its own containerd and kubelet, its own
# address on the bridge, its own range of pod addresses and its own cgroup.

# static gives whole CPUs to Guaranteed pods. Were all nodes static, a server
# and its client would be pinned to the same CPU, since each node counts alone.
static_cpu_nodes() {
  local stored=$STATE/static-cpu-nodes
  if [[ -n ${DRAGSTRIP_STATIC_CPU_NODES+set} ]]; then
    echo "$DRAGSTRIP_STATIC_CPU_NODES"
  elif [[ -r $stored ]]; then
    cat "$stored"
  else
    echo server-1 server-2
  fi
}
STATIC_CPU_NODES=$(static_cpu_nodes)
readonly STATIC_CPU_NODES

# pod_range NODE: its first and last pod address; 16 x 256 to each.
pod_range() {
  local number
  number=$(node_number "$1")
  echo "10.88.$((16 * number)).1 10.88.$((16 * number + 15)).254"
}

instance_type() {
  case $(node_role "$1") in
  server) echo testbed.medium ;;
  client) echo testbed.large ;;
  esac
}

node_labels() {
  echo "node.kubernetes.io/instance-type=$(instance_type "$1")"
  echo topology.kubernetes.io/zone=testbed-1a
  echo topology.kubernetes.io/region=testbed-1
  echo dragstrip.dev/placement-group=testbed
  echo "dragstrip.dev/role=$(node_role "$1")"
}

cpu_policy() {
  if [[ " $STATIC_CPU_NODES " == *" $1 "* ]]; then echo static; else echo none; fi
}

write_cni_config() {
  local node=$1 dir first last
  dir=$(node_dir "$node")
  read -r first last <<<"$(pod_range "$node")"
  mkdir -p "$dir/cni"
  cat >"$dir/cni/10-testbed.conflist" <<END
{
  "cniVersion": "1.0.0",
  "name": "$(node_name "$node")",
  "plugins": [{
    "type": "bridge", "bridge": "$BRIDGE", "hairpinMode": true,
    "ipam": {
      "type": "host-local", "dataDir": "$dir/addresses",
      "ranges": [[{"subnet": "$BRIDGE_RANGE", "rangeStart": "$first", "rangeEnd": "$last", "gateway": "$APISERVER_IP"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
END
}

write_containerd_config() {
  local dir
  dir=$(node_dir "$1")
  # There is no registry: a pull fails at once instead of asking the network for it.
  mkdir -p "$dir/registries/_default"
  echo 'server = "http://127.0.0.1:1"' >"$dir/registries/_default/hosts.toml"
  cat >"$dir/containerd.toml" <<END
version = 2
root = "$dir/containerd"
state = "$dir/run"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "$dir/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
path = "$dir/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "$PAUSE_IMAGE"
stream_server_address = "127.0.0.1"
tolerate_missing_hugetlb_controller = true
# runc may not lower oom_score_adj without CAP_SYS_RESOURCE: containers would fail.
restrict_oom_score_adj = true
# So that all of a node's mounts are found below its directory.
netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "$dir/registries"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$(cni_plugins)"
conf_dir = "$dir/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "$dir/run/runc"
SystemdCgroup = false
END
}

kubelet_config() {
  local node=$1 dir
  dir=$(node_dir "$node")
  cat <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $(node_ip "$node")
healthzBindAddress: $(node_ip "$node")
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$PKI/ca.crt"}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$dir/containerd.sock
clusterDNS: [$DNS_IP]
clusterDomain: cluster.local
resolvConf: $CONF/resolv.conf
podLogsDir: $dir/pod-logs
cgroupDriver: cgroupfs
cgroupRoot: /$(node_name "$node")
failCgroupV1: false
enforceNodeAllocatable: [pods]
localStorageCapacityIsolation: false
cpuManagerPolicy: $(cpu_policy "$node")
kubeReserved: {cpu: 100m}
oomScoreAdj: 0
maxPods: 110
nodeStatusUpdateFrequency: 3s
nodeStatusReportFrequency: 3s
nodeLeaseDurationSeconds: 12
shutdownGracePeriod: 0s
kubeAPIQPS: 200
kubeAPIBurst: 400
eventRecordQPS: 0
registryPullQPS: 0
serializeImagePulls: false
# Images come from the testbed only: one that was collected could not be pulled again.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}
registerWithTaints: $(taints "$node")
END
}

# One node takes whatever comes, as a cluster's node for everything else does.
tainted() { [[ $1 != server-1 ]]; }

taints() {
  if tainted "$1"; then
    echo "[{key: dragstrip.dev/role, value: $(node_role "$1"), effect: NoSchedule}]"
  else
    echo '[]'
  fi
}

# After a crash nothing of the last life may be taken for running: as after a
# machine's restart, the runtime directory is empty and no address is taken.
sweep_node() {
  local node=$1 dir socket
  dir=$(node_dir "$node")
  kill_pods "$node"
  # A living kubelet counts on its volumes and cgroups: it clears them itself.
  if running "kubelet:$node"; then
    unmount_below "$dir/run"
  else
    unmount_below "$dir"
    remove_cgroup "$(node_name "$node")"
  fi
  for socket in "$dir"/run/io.containerd.runtime.v2.task/k8s.io/*/address; do
    if [[ -e $socket ]]; then rm -f "$(sed 's|^unix://||' "$socket")"; fi
  done
  rm -rf "$dir/run" "$dir/addresses"
  rm -f "$dir/containerd.sock"
}

# Containers that outlived their containerd stay: it finds them again.
start_containerd() {
  local node=$1 dir
  dir=$(node_dir "$node")
  if running "containerd:$node"; then return; fi
  [[ -n $(shims "$node") ]] || sweep_node "$node"
  mkdir -p "$dir"
  write_cni_config "$node"
  write_containerd_config "$node"
  start_process "containerd:$node" containerd --config "$dir/containerd.toml"
}

containerd_ready() { ctr_node "$1" version && ctr_node "$1" plugins ls id==cri | grep -qw ok; }
await_containerd() { await_process "containerd:$1" 30 "containerd of node $1" containerd_ready "$1"; }

start_kubelet() {
  local node=$1 dir
  dir=$(node_dir "$node")
  kubelet_config "$node" >"$dir/kubelet.yaml.new"
  if running "kubelet:$node"; then
    if cmp --quiet "$dir/kubelet.yaml.new" "$dir/kubelet.yaml"; then return; fi
    stop_process "kubelet:$node"
  fi
  mv "$dir/kubelet.yaml.new" "$dir/kubelet.yaml"
  # Where a machine's one kubelet would have them, and pods that bring them put them.
  mkdir -p "$dir/kubelet"
  ln -sfn /var/lib/kubelet/seccomp "$dir/kubelet/seccomp"
  : >"$CONF/resolv.conf"
  make_cgroup "$(node_name "$node")"
  # The kubelet refuses to start with the notes of another CPU policy.
  grep -q "\"policyName\":\"$(cpu_policy "$node")\"" "$dir/kubelet/cpu_manager_state" 2>/dev/null ||
    rm -f "$dir/kubelet/cpu_manager_state"
  start_process "kubelet:$node" "$BIN/kubelet" --config "$dir/kubelet.yaml" \
    --kubeconfig "$PKI/$node/kubelet.conf" --root-dir "$dir/kubelet" --cert-dir "$dir/kubelet/pki" \
    --hostname-override "$(node_name "$node")" --node-ip "$(node_ip "$node")" \
    --node-labels "$(node_labels "$node" | paste -sd,)"
}

# Every kubelet clears the machine's one directory of device plugins and then
# listens there: one that comes between another's two steps ends that one.
holds_device_plugins() {
  ss --unix --listening --processes --no-header |
    grep "/var/lib/kubelet/device-plugins/kubelet.sock .*pid=$(pid_of "kubelet:$1")," >/dev/null
}
await_device_plugins() {
  await_process "kubelet:$1" 60 "the device plugin socket of node $1's kubelet" holds_device_plugins "$1"
}

kubelet_ready() { curl -sf --max-time 2 "http://$(node_ip "$1"):10248/healthz"; }
await_kubelet() { await_process "kubelet:$1" 60 "the health of node $1's kubelet" kubelet_ready "$1"; }

# A restarted etcd still calls the nodes ready: believe only a heartbeat that is
# younger than the kubelet.
node_ready() {
  local status beat
  read -r status beat <<<"$(kube get node "$(node_name "$1")" \
    -o jsonpath='{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}')"
  [[ $status == True ]] && (($(date -d "$beat" +%s) >= $(stat -c %Y "$PIDS/kubelet:$1")))
}

await_node() { await_process "kubelet:$1" 60 "node $1 to be ready" node_ready "$1"; }

# Also for nodes that a restarted etcd remembers: kubelets label new nodes only.
label_nodes() {
  local node labels
  for node in "${NODES[@]}"; do
    mapfile -t labels < <(node_labels "$node")
    kube label --overwrite node "$(node_name "$node")" "${labels[@]}" >/dev/null
    ! tainted "$node" ||
      kube taint --overwrite node "$(node_name "$node")" "dragstrip.dev/role=$(node_role "$node"):NoSchedule" >/dev/null
  done
}
