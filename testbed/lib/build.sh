# shellcheck shell=bash
# Builds the testbed's programs from Go modules into $BIN.

readonly STAMPS=$CACHE/stamps
readonly LOGS_BUILD=$CACHE/logs

require_go() {
  command -v go >/dev/null || die "no 'go' on PATH: install Go 1.24 or newer (https://go.dev/dl), then retry"
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

# build_step STAMP INPUTS FILES FUNCTION: builds unless fresh; prints how long it takes.
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

# compile OUTPUT LINKER_FLAGS PACKAGE...: static programs, as the module pins them.
compile() (
  cd "$TESTBED/programs" || return
  # Debug information would take a seventh of the compiler's time, for the linker to drop it.
  CGO_ENABLED=0 go build -trimpath -gcflags=all=-dwarf=false -o "$1" -ldflags "-s -w $2" "${@:3}"
)

compile_kubernetes() {
  local program packages=() version=k8s.io/component-base/version
  for program in $KUBERNETES_PROGRAMS; do packages+=("k8s.io/kubernetes/cmd/$program"); done
  compile "$BIN/" "-X $version.gitVersion=$KUBERNETES_VERSION -X $version.gitMajor=1 -X $version.gitMinor=34" \
    "${packages[@]}" &&
    compile "$BIN/etcd" "" go.etcd.io/etcd/server/v3
}

compile_coredns() { compile "$BIN/coredns" "" ./coredns; }

compile_helm() {
  compile "$BIN/helm" "-X helm.sh/helm/v3/internal/version.version=$HELM_VERSION" helm.sh/helm/v3/cmd/helm
}

# The inputs of all programs.
pinned() { cat "$TESTBED"/programs/{go.mod,go.sum,coredns/main.go} | sha256sum | cut -c1-32; }

build_programs() {
  build_step kubernetes "$(pinned)" "$KUBERNETES_PROGRAMS etcd" compile_kubernetes
  build_step coredns "$(pinned)" coredns compile_coredns
}

build_helm() { build_step helm "$(pinned)" helm compile_helm; }

# kwok plays kubelets.
compile_kwok() { compile "$BIN/kwok" "" sigs.k8s.io/kwok/cmd/kwok; }

build_kwok() { build_step kwok "$(pinned)" kwok compile_kwok; }
