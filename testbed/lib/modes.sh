# shellcheck shell=bash
# Clusters that the testbed does not run itself: kind, and whichever the
# current kubeconfig names.

require_kind() {
  local command
  for command in docker kind kubectl; do
    command -v "$command" >/dev/null ||
      die "CLUSTER=kind needs '$command' on the PATH: install it, or use CLUSTER=local"
  done
}

kind_node() {
  echo "- role: worker"
  echo "  labels:"
  node_labels "$1" | sed 's/^/    /; s/=/: /'
  echo "  kubeadmConfigPatches:"
  echo "  - |"
  echo "    kind: JoinConfiguration"
  echo "    nodeRegistration: {taints: $(taints "$1")}"
}

kind_config() {
  echo "kind: Cluster"
  echo "apiVersion: kind.x-k8s.io/v1alpha4"
  echo "nodes:"
  echo "- role: control-plane"
  local node
  for node in "${NODES[@]}"; do kind_node "$node"; done
}

kind_up() {
  require_kind
  mkdir -p "$STATE"
  if ! kind get clusters | grep -qx dragstrip; then
    kind_config | kind create cluster --name dragstrip --config - --kubeconfig "$STATE/kubeconfig" --wait 120s
  fi
  say "ready: export KUBECONFIG=$STATE/kubeconfig"
}

kind_down() {
  require_kind
  kind delete cluster --name dragstrip --kubeconfig "$STATE/kubeconfig"
  rm -rf "$STATE"
}

current_up() {
  command -v kubectl >/dev/null || PATH=$BIN:$PATH
  command -v kubectl >/dev/null || die "CLUSTER=current needs 'kubectl' on PATH"
  local context
  context=$(kubectl config current-context) ||
    die "CLUSTER=current: the kubeconfig ($(kubeconfig_path)) has no current context: choose one with 'kubectl config use-context'"
  kubectl version --request-timeout 10s >/dev/null ||
    die "CLUSTER=current: cannot reach the cluster of context '$context'"
  say "current cluster: $context"
  kubectl get nodes --label-columns node.kubernetes.io/instance-type,topology.kubernetes.io/zone
}

kubeconfig_path() {
  case $CLUSTER in
  current) echo "${KUBECONFIG:-$HOME/.kube/config}" ;;
  *) echo "$STATE/kubeconfig" ;;
  esac
}
