# shellcheck shell=bash
# Shared by all parts of the testbed: paths, messages, waiting.

# module_version MODULE: the version that is built.
module_version() { sed -n "s|^[[:space:]]*$1 \(v[^ ]*\)$|\1|p" "$TESTBED/programs/go.mod"; }

KUBERNETES_VERSION=$(module_version k8s.io/kubernetes)
COREDNS_VERSION=$(module_version github.com/coredns/coredns)
HELM_VERSION=$(module_version helm.sh/helm/v3)
readonly KUBERNETES_VERSION COREDNS_VERSION HELM_VERSION

readonly CACHE=${DRAGSTRIP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dragstrip}/testbed
readonly CLUSTER=${CLUSTER:-local}
# kind keeps its own state; only its kubeconfig is here, and its user need not be root.
if [[ $CLUSTER == kind ]]; then STATE=${DRAGSTRIP_STATE:-$CACHE/kind}; else STATE=${DRAGSTRIP_STATE:-/var/lib/dragstrip-testbed}; fi
readonly STATE

readonly BIN=$CACHE/bin
readonly PIDS=$STATE/pids
readonly LOGS=$STATE/logs
readonly CONF=$STATE/conf
readonly PKI=$STATE/pki

# shellcheck disable=SC2034  # read by the files that source this one
readonly NODES=(server-1 server-2 client-1 client-2)
readonly BRIDGE=dragstrip0
readonly BRIDGE_MAC=0a:58:0a:58:00:01
readonly BRIDGE_RANGE=10.88.0.0/16
readonly SERVICE_RANGE=10.96.0.0/16
readonly APISERVER_IP=10.88.0.1
readonly DNS_IP=10.96.0.10
readonly KUBECTL_IMAGE=dragstrip.dev/testbed/kubectl:${KUBERNETES_VERSION#v}
readonly PAUSE_IMAGE=dragstrip.dev/testbed/pause:1
readonly COREDNS_IMAGE=dragstrip.dev/testbed/coredns:${COREDNS_VERSION#v}

# Reports that the stored state cannot be used and that a clean start may help.
readonly UNUSABLE_STATE=75

BEGAN=$EPOCHREALTIME

elapsed() {
  local microseconds=$((${EPOCHREALTIME/[.,]/} - ${BEGAN/[.,]/}))
  printf '%d.%d' $((microseconds / 1000000)) $((microseconds / 100000 % 10))
}

say() { printf '%6ss  %s\n' "$(elapsed)" "$*"; }

die() {
  printf 'testbed: %s\n' "$*" >&2
  exit 1
}

# wait_for WHAT SECONDS COMMAND...: until COMMAND succeeds, or fails at the deadline.
wait_for() {
  local what=$1 seconds=$2 deadline=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= deadline)); then
      printf 'testbed: timed out after %s s while waiting for %s\n' "$seconds" "$what" >&2
      return 1
    fi
    sleep 0.1
  done
}

node_name() { echo "dragstrip-$1"; }
node_dir() { echo "$STATE/nodes/$1"; }

# node_number NODE: from 1.
node_number() {
  local number=1 node
  for node in "${NODES[@]}"; do
    [[ $node != "$1" ]] || { echo "$number" && return; }
    ((number += 1))
  done
  die "no such node: $1 (choose from: ${NODES[*]})"
}

node_ip() { echo "10.88.0.$(($(node_number "$1") + 1))"; }

# node_role NODE: server or client.
node_role() { echo "${1%-*}"; }

# The existing cluster's nodes; another version may have created it.
made_nodes() { if [[ -d $STATE/nodes ]]; then ls "$STATE/nodes"; fi; }

# As root's super-admin.conf the testbed is not locked out by a broken RBAC test.
kube() { "$BIN/kubectl" --kubeconfig "$PKI/super-admin.conf" "$@"; }

ctr_node() {
  local node=$1
  shift
  ctr --address "$(node_dir "$node")/containerd.sock" --namespace k8s.io "$@"
}

require_root() {
  ((EUID == 0)) || die "needs root for bridge, cgroups, and mounts: run it as root, for example with sudo -E"
}

require_local() {
  [[ $CLUSTER == local ]] || die "'$1' works on the local testbed only, and CLUSTER is '$CLUSTER'"
}

require_disk() {
  local path=$1 free
  mkdir -p "$path"
  free=$(df --output=avail -k "$path" | tail -1)
  ((free >= 6 * 1024 * 1024)) ||
    die "$path has $((free / 1024)) MiB free, but needs 6 GiB: free some space, or point DRAGSTRIP_CACHE and DRAGSTRIP_STATE to another disk"
}

# package_of COMMAND: the Debian package that contains it.
package_of() {
  case $1 in
  containerd | ctr) echo containerd ;;
  ip | ss) echo iproute2 ;;
  sysctl) echo procps ;;
  gcc) echo gcc libc6-dev ;;
  pip3) echo python3-pip ;;
  flock | setsid) echo util-linux ;;
  *) echo "$1" ;;
  esac
}

cni_plugins() {
  local dir
  for dir in /usr/lib/cni /opt/cni/bin; do
    [[ -x $dir/bridge && -x $dir/host-local ]] && echo "$dir" && return
  done
  return 1
}

# require_commands COMMAND...: installs the packages of missing commands.
require_commands() {
  local command packages=()
  for command in "$@"; do
    if [[ $command == cni ]]; then
      cni_plugins >/dev/null || packages+=(containernetworking-plugins)
    elif ! command -v "$command" >/dev/null; then
      read -ra more <<<"$(package_of "$command")"
      packages+=("${more[@]}")
    fi
  done
  ((${#packages[@]})) || return 0
  command -v apt-get >/dev/null ||
    die "missing: ${packages[*]} (Debian package names): install them; this machine has no apt-get"
  require_root
  say "installing ${packages[*]}"
  local log
  log=$(mktemp)
  # A fresh machine often upgrades itself meanwhile, and holds the lock.
  local -r wait=(-o DPkg::Lock::Timeout=300)
  if ! { apt-get "${wait[@]}" update && DEBIAN_FRONTEND=noninteractive apt-get "${wait[@]}" install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    die "apt-get could not install ${packages[*]}: see above, and $log"
  fi
  rm -f "$log"
}

# One command at a time changes the cluster, and one the images: helpers that
# call `up` together would otherwise start everything twice.
lock() {
  local file=/run/lock/dragstrip-testbed-$1.lock
  ((EUID == 0)) || file=$CACHE/$1.lock
  mkdir -p "$(dirname "$file")"
  exec 9>"$file"
  flock --nonblock 9 && return
  say "waiting for another testbed command to finish ($file)"
  flock --timeout 900 9 || die "another testbed command has held $file for 15 minutes: end it, then retry"
}
