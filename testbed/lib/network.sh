# shellcheck shell=bash
# The parts of the machine that the testbed borrows: a bridge, cgroups, kernel
# settings, packet rules, mounts. Each has its opposite here for `down`.

# Set or changed by this script, by kube-proxy and by the kubelets.
readonly KERNEL_SETTINGS=(
  net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables net.ipv4.conf.all.route_localnet
  vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  kernel.keys.root_maxkeys kernel.keys.root_maxbytes
)

# Made by kubelets and shims, wherever their own directories are.
readonly FOREIGN_DIRECTORIES=(/var/lib/kubelet/device-plugins /var/lib/kubelet /var/log/containers /run/containerd/s /run/containerd)

remember_machine() {
  local setting path
  [[ ! -e $STATE/machine-before ]] || return 0
  for setting in "${KERNEL_SETTINGS[@]}"; do
    sysctl --ignore "$setting" 2>/dev/null
  done >"$STATE/machine-before.new"
  for path in "${FOREIGN_DIRECTORIES[@]}"; do
    [[ -e $path ]] || echo "$path" >>"$STATE/directories-made"
  done
  mv "$STATE/machine-before.new" "$STATE/machine-before"
}

restore_machine() {
  local path
  if [[ -s $STATE/machine-before ]]; then
    sysctl --quiet --load "$STATE/machine-before" || say "some kernel settings could not be restored"
  fi
  if [[ -d /var/log/containers ]]; then find /var/log/containers -type l -lname "$STATE/*" -delete; fi
  [[ -e $STATE/directories-made ]] || return 0
  rm -f /var/lib/kubelet/device-plugins/kubelet.sock
  # Not empty: another program has come to use it since.
  while read -r path; do
    [[ ! -d $path ]] || rmdir --ignore-fail-on-non-empty "$path"
  done <"$STATE/directories-made"
}

prepare_kernel() {
  [[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ]] || modprobe br_netfilter ||
    die "the kernel has no br_netfilter: services between pods would not work; load that module"
  grep -qw overlay /proc/filesystems || modprobe overlay ||
    die "the kernel has no overlayfs, which containerd needs; load that module"
  remember_machine
  sysctl --quiet --write net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
}

make_bridge() {
  local node
  [[ -e /sys/class/net/$BRIDGE ]] || ip link add "$BRIDGE" type bridge
  # One of its own: a bridge takes the lowest of its ports', and when the pod that lent it
  # ends, all others send what is for the nodes to nobody for up to half a minute.
  ip link set "$BRIDGE" address "$BRIDGE_MAC"
  ip address replace "$APISERVER_IP/${BRIDGE_RANGE#*/}" dev "$BRIDGE"
  for node in "${NODES[@]}"; do
    ip address replace "$(node_ip "$node")/${BRIDGE_RANGE#*/}" dev "$BRIDGE"
  done
  ip link set "$BRIDGE" up
  # Without it, packets to a service that has no rules yet leave the machine.
  ip route replace "$SERVICE_RANGE" dev "$BRIDGE" src "$APISERVER_IP"
  local direction
  for direction in --in-interface --out-interface; do
    # Where another program sets the forward policy to DROP, pods could not talk.
    iptables --wait --check FORWARD "$direction" "$BRIDGE" -j ACCEPT 2>/dev/null ||
      iptables --wait --insert FORWARD "$direction" "$BRIDGE" -j ACCEPT
  done
}

remove_bridge() {
  local direction
  for direction in --in-interface --out-interface; do
    if iptables --wait --check FORWARD "$direction" "$BRIDGE" -j ACCEPT 2>/dev/null; then
      iptables --wait --delete FORWARD "$direction" "$BRIDGE" -j ACCEPT
    fi
  done
  [[ ! -e /sys/class/net/$BRIDGE ]] || ip link delete "$BRIDGE"
}

# kube_rules FAMILY TABLE: what takes the KUBE- chains of a table away, in
# iptables-restore's language: first the jumps to them, then the chains.
kube_rules() {
  local saved chains
  saved=$("$1-save" -t "$2" 2>/dev/null)
  chains=$(sed -n 's/^:\(KUBE-[^ ]*\) .*/\1/p' <<<"$saved")
  [[ -n $chains ]] || return 0
  echo "*$2"
  grep -E '^-A ' <<<"$saved" | grep -vE '^-A KUBE-' | grep -E -- '-j KUBE-' | sed 's/^-A/-D/'
  awk '{ print "-F " $0 }' <<<"$chains"
  awk '{ print "-X " $0 }' <<<"$chains"
  echo COMMIT
}

remove_packet_rules() {
  local family table rules
  for family in iptables ip6tables; do
    for table in nat filter mangle; do
      # grep finds no jumps where only a canary chain was made: no failure.
      rules=$(kube_rules "$family" "$table" || true)
      [[ -z $rules ]] || "$family-restore" --wait --noflush <<<"$rules"
    done
  done
}

cgroup_v2() { [[ -e /sys/fs/cgroup/cgroup.controllers ]]; }

# cgroup_roots NAME: the cgroup's directory in each hierarchy.
cgroup_roots() {
  if cgroup_v2; then
    echo "/sys/fs/cgroup/$1"
    return
  fi
  awk -v name="$1" '$3 ~ /^cgroup2?$/ { print $2 "/" name }' /proc/mounts | sort -u
}

make_cgroup() {
  local root file
  while read -r root; do
    mkdir -p "$root"
    # An empty cpuset of cgroup v1 takes no process in.
    for file in cpuset.cpus cpuset.mems; do
      if ! cgroup_v2 && [[ -e $root/$file && -z $(<"$root/$file") ]]; then
        cat "$(dirname "$root")/$file" >"$root/$file"
      fi
    done
  done < <(cgroup_roots "$1")
}

remove_cgroup() {
  local root
  while read -r root; do
    [[ ! -d $root ]] || find "$root" -depth -type d -exec rmdir {} +
  done < <(cgroup_roots "$1")
}

# unmount_below DIRECTORY: deepest first; lazily, since a killed process may
# still be leaving.
unmount_below() {
  local mount
  awk -v below="$1/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | sort -ru |
    while read -r mount; do umount --lazy "$mount"; done
}

# require_free_ports PROCESS ADDRESS PORT...: unless the process is ours and
# runs. The same port on another node's address does not conflict.
require_free_ports() {
  local process=$1 address=${2//./\\.} port holder
  shift 2
  if running "$process"; then return; fi
  for port in "$@"; do
    holder=$(ss -Hltnp "sport = :$port" | grep -E "(0\.0\.0\.0|\*|\[::\]|$address)[^ ]*:$port " || true)
    [[ -z $holder ]] ||
      die "$process needs port $port, which is in use: $(grep -o 'users:.*' <<<"$holder" || echo "$holder"): stop that program"
  done
}
