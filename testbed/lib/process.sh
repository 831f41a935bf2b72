# shellcheck shell=bash
# Processes that the testbed starts, and only those: a process is known by its
# pid, its start time and the boot, so that a reused pid is never taken for it.

process_identity() {
  local stat
  stat=$(<"/proc/$1/stat") || return 1
  # The command name (field 2) may hold spaces and brackets: count after it.
  read -ra fields <<<"${stat##*) }"
  [[ ${fields[0]} != Z ]] || return 1
  echo "$1 ${fields[19]} $(</proc/sys/kernel/random/boot_id)"
}

# running NAME: succeeds while the process recorded under NAME lives.
running() {
  local recorded
  [[ -s $PIDS/$1 ]] || return 1
  recorded=$(<"$PIDS/$1")
  [[ $(process_identity "${recorded%% *}" 2>/dev/null) == "$recorded" ]]
}

pid_of() { cut -d' ' -f1 "$PIDS/$1"; }

# start_process NAME COMMAND...
start_process() {
  local name=$1
  shift
  if running "$name"; then return; fi
  mkdir -p "$PIDS" "$LOGS"
  if [[ -f $LOGS/$name.log ]]; then mv "$LOGS/$name.log" "$LOGS/$name.log.1"; fi
  # 9 is the lock: a daemon that held it open would hold it for its lifetime.
  setsid "$@" >"$LOGS/$name.log" 2>&1 </dev/null 9>&- &
  process_identity $! >"$PIDS/$name" || die "$name ended at once: see $LOGS/$name.log"
}

# await_process NAME SECONDS WHAT COMMAND...: like wait_for, but gives up at
# once when the process has died.
await_process() {
  local name=$1 seconds=$2 what=$3
  shift 3
  wait_for "$what" "$seconds" dead_or_ready "$name" "$@" || {
    show_log "$name"
    return 1
  }
  running "$name" && return
  printf 'testbed: %s ended while waiting for %s\n' "$name" "$what" >&2
  show_log "$name"
  return 1
}

# dead_or_ready NAME COMMAND...
dead_or_ready() {
  local name=$1
  shift
  ! running "$name" || "$@"
}

show_log() {
  printf 'testbed: last lines of %s:\n' "$LOGS/$1.log" >&2
  tail -n 8 "$LOGS/$1.log" >&2
}

gone() { ! running "$1"; }

# stop_process NAME: asks, waits, then insists.
stop_process() {
  local name=$1
  if running "$name"; then
    kill -TERM "$(pid_of "$name")"
    if ! wait_for "$name to end" 3 gone "$name" 2>/dev/null; then
      kill -KILL "$(pid_of "$name")"
      wait_for "$name to end after SIGKILL" 5 gone "$name"
    fi
  fi
  rm -f "$PIDS/$name"
}

# shims NODE: pids of the container shims that this node's containerd started;
# they carry its socket on their command line.
shims() {
  local socket directory
  socket=$(node_dir "$1")/containerd.sock
  for directory in /proc/[0-9]*; do
    # A process may end between the listing and the reading.
    if tr '\0' '\n' 2>/dev/null <"$directory/cmdline" | grep -qxF -- "$socket"; then
      if [[ $(readlink "$directory/exe" 2>/dev/null) == *containerd-shim* ]]; then echo "${directory#/proc/}"; fi
    fi
  done
}

# node_processes NODE: pids in the node's cgroup: the containers' processes.
node_processes() {
  local root
  while read -r root; do
    # A cgroup may go between the listing and the reading: its processes are gone.
    if [[ -d $root ]]; then find "$root" -name cgroup.procs -exec cat {} + 2>/dev/null || true; fi
  done < <(cgroup_roots "$(node_name "$1")") | sort -un
}

no_node_processes() { [[ -z $(shims "$1")$(node_processes "$1") ]]; }

# kill_pods NODE: ends shims and containers the hard way, as a dead machine would.
kill_pods() {
  local pids
  pids="$(shims "$1") $(node_processes "$1")"
  # shellcheck disable=SC2086  # a list of numbers; some may end meanwhile
  [[ -z ${pids// /} ]] || kill -KILL $pids 2>/dev/null || true
  wait_for "the pods' processes of node $1 to end" 10 no_node_processes "$1"
}
