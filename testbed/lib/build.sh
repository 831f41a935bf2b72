# shellcheck shell=bash
# Builds the testbed's programs from Go modules into $BIN.

readonly STAMPS=$CACHE/stamps
readonly LOGS_BUILD=$CACHE/logs

require_go() {
  command -v go >/dev/null || die "no 'go' on PATH: install Go 1.24 or newer (https://go.dev/dl), then try again"
}

# fresh STAMP INPUTS FILE...: nothing has changed since the files were built.
fresh() {
  local stamp=$1 inputs=$2 file
  shift 2
  for file in "$@"; do [[ -x $file ]] || return 1; done
  [[ -e $STAMPS/$stamp && $(<"$STAMPS/$stamp") == "$inputs" ]]
}

mark_fresh() {
  mkdir -p "$STAMPS"
  echo "$2" >"$STAMPS/$1"
}

# build_step STAMP INPUTS FILES FUNCTION: builds unless fresh; tells how long it takes.
build_step() {
  local stamp=$1 inputs=$2 files=$3 function=$4 paths=() file
  for file in $files; do paths+=("$BIN/$file"); done
  if fresh "$stamp" "$inputs" "${paths[@]}"; then return; fi
  require_go
  require_disk "$CACHE"
  mkdir -p "$BIN" "$LOGS_BUILD"
  say "building $stamp ($files); log: $LOGS_BUILD/$stamp.log"
  "$function" >"$LOGS_BUILD/$stamp.log" 2>&1 &
  show_progress "$stamp" $!
  if ! wait $!; then
    tail -20 "$LOGS_BUILD/$stamp.log" >&2
    die "building $stamp failed: see above"
  fi
  mark_fresh "$stamp" "$inputs"
  say "built $stamp"
}

# show_progress WHAT PID: a first build takes minutes, and silence would look
# like a hang.
show_progress() {
  local next=$((SECONDS + 20))
  while kill -0 "$2" 2>/dev/null; do
    if ((SECONDS >= next)); then
      say "  still building $1"
      next=$((SECONDS + 20))
    fi
    sleep 0.2
  done
}

readonly KUBERNETES_PROGRAMS="kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl"

compile_kubernetes() (
  version=k8s.io/component-base/version packages=()
  for program in $KUBERNETES_PROGRAMS; do packages+=("k8s.io/kubernetes/cmd/$program"); done
  cd "$TESTBED/kubernetes" || return
  CGO_ENABLED=0 go build -trimpath -o "$BIN/" -ldflags "-s -w
    -X $version.gitVersion=$KUBERNETES_VERSION -X $version.gitMajor=1 -X $version.gitMinor=34" "${packages[@]}" &&
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$BIN/etcd" go.etcd.io/etcd/server/v3
)

compile_coredns() {
  GOBIN=$BIN CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" "github.com/coredns/coredns@$COREDNS_VERSION"
}

# Helm's go.mod asks for newer golang.org/x modules than the ones Kubernetes
# was released with, so the two do not share one.
compile_helm() {
  GOBIN=$BIN CGO_ENABLED=0 go install -trimpath \
    -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$HELM_VERSION" "helm.sh/helm/v3/cmd/helm@$HELM_VERSION"
}

build_programs() {
  local modules
  modules=$(cat "$TESTBED/kubernetes/go.mod" "$TESTBED/kubernetes/go.sum" | sha256sum)
  build_step kubernetes "$KUBERNETES_VERSION ${modules%% *}" "$KUBERNETES_PROGRAMS etcd" compile_kubernetes
  build_step coredns "$COREDNS_VERSION" coredns compile_coredns
}

build_helm() { build_step helm "$HELM_VERSION" helm compile_helm; }
