# shellcheck shell=bash
# Takes everything away that `up` made on the machine, and nothing else.

stop_everything() {
  local node nodes
  # Kubelets first: they would restart pods while these are being ended. etcd
  # last: the apiserver hangs on without it.
  mapfile -t nodes < <(made_nodes)
  stop_all prometheus discovery-pods discovery-endpoints # of testbed/prometheus
  stop_all "${nodes[@]/#/kubelet:}"
  stop_all "${nodes[@]/#/containerd:}" kube-proxy scheduler controller-manager apiserver
  stop_all etcd
  for node in "${nodes[@]}"; do sweep_node "$node"; done
}

# stop_all NAME...: at once, since some take seconds.
stop_all() {
  local name job jobs=()
  for name in "$@"; do
    stop_process "$name" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || die "a process does not end: see above"; done
}

remove_state() {
  unmount_below "$STATE"
  rm -rf "$STATE"
}

# What was noted of the machine stays: it shows how to restore it.
reset_state() {
  unmount_below "$STATE"
  find "$STATE" -mindepth 1 -maxdepth 1 ! -name machine-before ! -name directories-made -exec rm -rf {} +
}

local_down() {
  require_root
  lock cluster
  say "stopping processes and pods"
  stop_everything
  say "removing bridge, packet rules, cgroups and $STATE"
  remove_packet_rules
  remove_bridge
  restore_machine
  remove_state
  say "down; the cache stays in $CACHE"
}
