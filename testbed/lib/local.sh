# shellcheck shell=bash
# Starting the local testbed, and its faults.

readonly COMPONENTS=(etcd apiserver scheduler controller-manager "${NODES[@]/#/kubelet:}" "${NODES[@]/#/containerd:}")

preflight() {
  local node
  ((${#STATE} <= 57)) || die "DRAGSTRIP_STATE is too long for the sockets below it (57 characters at most): $STATE"
  for node in $(made_nodes); do
    [[ " ${NODES[*]} " == *" $node "* ]] ||
      die "the cluster in $STATE was created with other nodes ($(made_nodes | paste -sd' ')) than ${NODES[*]}: 'testbed/cluster down', then 'testbed/cluster up'"
  done
  for node in $STATIC_CPU_NODES; do node_number "$node" >/dev/null; done
  require_commands containerd runc cni iptables conntrack ip ss sysctl flock setsid buildah jq curl openssl gcc
  running etcd || require_disk "$STATE"
  require_free_ports etcd 127.0.0.1 2379 2380
  require_free_ports apiserver "$APISERVER_IP" 6443
  require_free_ports controller-manager 127.0.0.1 10257
  require_free_ports scheduler 127.0.0.1 10259
  require_free_ports kube-proxy 127.0.0.1 10249 10256
  for node in "${NODES[@]}"; do require_free_ports "kubelet:$node" "$(node_ip "$node")" 10248 10250; done
}

local_up() {
  require_root
  lock cluster
  preflight
  build_programs
  build_system_images
  local result=0
  # A separate program, so that any failure ends it.
  "$TESTBED/cluster" bring-up || result=$?
  if ((result == UNUSABLE_STATE)); then
    say "the stored state in $STATE cannot be used: starting clean"
    stop_everything
    reset_state
    result=0
    "$TESTBED/cluster" bring-up || result=$?
  fi
  ((result == 0)) || die "the cluster did not start: see the logs in $LOGS; 'testbed/cluster down' removes everything"
  say "ready: export KUBECONFIG=$STATE/kubeconfig"
}

# reuse STEP...: where state of an earlier life was there, a failure of the step
# says that it is unusable.
reuse() {
  if [[ $HAD_STATE == yes ]]; then
    "$@" || exit "$UNUSABLE_STATE"
  else
    "$@"
  fi
}

bring_up() {
  HAD_STATE=no
  [[ ! -e $PKI/complete ]] || HAD_STATE=yes
  mkdir -p "$STATE" "$PIDS" "$LOGS" "$CONF"
  chmod 0755 "$STATE"
  echo "$STATIC_CPU_NODES" >"$STATE/static-cpu-nodes"
  prepare_kernel
  make_bridge
  say "bridge $BRIDGE"
  make_pki
  reuse pki_valid
  say "certificates"
  start_everything
  settle
}

start_everything() {
  local node
  start_etcd
  for node in "${NODES[@]}"; do start_containerd "$node"; done
  reuse await_etcd
  say "etcd"
  start_apiserver
  for node in "${NODES[@]}"; do await_containerd "$node"; done
  load_archive "$(archive_of "$PAUSE_IMAGE")"
  load_archive "$(archive_of "$COREDNS_IMAGE")"
  say "containerd on all nodes, with the system images"
  reuse await_apiserver
  say "apiserver"
  grant_admin
  start_controller_manager
  start_scheduler
  start_kube_proxy
  for node in "${NODES[@]}"; do
    start_kubelet "$node"
    await_device_plugins "$node"
  done
  apply_coredns
}

settle() {
  local node
  await_controller_manager
  await_scheduler
  await_kube_proxy
  say "controller manager, scheduler and kube-proxy"
  for node in "${NODES[@]}"; do
    await_kubelet "$node"
    await_node "$node"
    say "node $(node_name "$node")"
  done
  label_nodes
  wait_for "CoreDNS to be available (see: kubectl -n kube-system describe pods)" 60 coredns_available
  wait_for "DNS over the service address $DNS_IP" 30 dns_answers
  say "DNS over its service address"
}

# The hash makes a changed Corefile reach the pods of a restarted cluster.
apply_coredns() {
  local manifest_hash
  manifest_hash=$(sha256sum <"$TESTBED/manifests/coredns.yaml" | cut -c1-16)
  sed -e "s|MANIFEST_HASH|\"$manifest_hash\"|" -e "s|COREDNS_IMAGE|$COREDNS_IMAGE|" -e "s|DNS_IP|$DNS_IP|" "$TESTBED/manifests/coredns.yaml" |
    kube apply --filename - >/dev/null
}

coredns_available() {
  kube --namespace kube-system rollout status deployment/coredns --timeout 5s
}

# Asks for kube-dns.kube-system.svc.cluster.local, type A, and requires an answer.
dns_answers() {
  local reply
  exec 8<>"/dev/udp/$DNS_IP/53"
  printf '\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x08kube-dns\x0bkube-system\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01' >&8
  reply=$(timeout 1 head -c 12 <&8 | od -An -tx1 | tr -d ' \n')
  exec 8>&-
  # The id, any flags, no error, and one answer.
  [[ $reply == 1234???00001000[1-9]* ]]
}

require_component() {
  local component
  for component in "${COMPONENTS[@]}"; do [[ $component != "$1" ]] || return 0; done
  die "no such component: $1 (choose from: ${COMPONENTS[*]})"
}

# stop_components [--with-pods] NAME...
stop_components() {
  local name with_pods=no names=()
  for name in "$@"; do
    if [[ $name == --with-pods ]]; then
      with_pods=yes
    else
      require_component "$name"
      names+=("$name")
    fi
  done
  ((${#names[@]})) || die "name one or more components to stop: ${COMPONENTS[*]}"
  lock cluster
  for name in "${names[@]}"; do
    stop_process "$name"
    say "stopped $name"
    if [[ $with_pods == yes && $name == containerd:* ]]; then
      kill_pods "${name#*:}"
      say "killed the processes of pods on node ${name#*:}"
    fi
  done
}

# start_components NAME...: each is ready when this returns.
start_components() {
  local name function
  (($#)) || die "name one or more components to start: ${COMPONENTS[*]}"
  for name in "$@"; do require_component "$name"; done
  [[ -e $PKI/complete ]] || die "there is no cluster in $STATE: run 'testbed/cluster up' first"
  lock cluster
  for name in "$@"; do
    function=${name%%:*}
    function=${function//-/_}
    case $name in
    *:*) "start_$function" "${name#*:}" && "await_$function" "${name#*:}" ;;
    *) "start_$function" && "await_$function" ;;
    esac
    say "started $name"
  done
}

local_status() {
  local name state
  for name in "${COMPONENTS[@]}" kube-proxy; do
    if running "$name"; then state="runs (pid $(pid_of "$name"))"; else state=stopped; fi
    printf '%-20s %s\n' "$name" "$state"
  done
  if running apiserver; then
    kube get nodes --output wide
    kube get pods --all-namespaces --output wide
  fi
}
