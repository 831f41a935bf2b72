# shellcheck shell=bash
# Builds images with buildah, keeps them as archives in the cache, and loads
# them into every node. Work whose inputs have not changed is skipped.

readonly ARCHIVES=$CACHE/images
# What the public node images stand on.
readonly NODE_DEBIAN=docker.io/library/debian:bookworm-slim

builder() {
  buildah --root "$CACHE/storage" --runroot /run/dragstrip-testbed-images --storage-driver overlay "$@"
}

archive_of() { echo "$ARCHIVES/$(tr '/:' '__' <<<"$1").tar"; }

# hash_inputs FILE DIRECTORY: of names, modes and contents.
hash_inputs() {
  {
    sha256sum <"$1"
    cd "$2" && find . \( -type f -o -type l \) -printf '%p %m %l\n' | sort
    find . -type f -print0 | sort -z | xargs -0r sha256sum
  } | sha256sum | cut -d' ' -f1
}

# quietly LOG COMMAND...: its output matters only when it fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 || {
    tail -20 "$log" >&2
    die "failed: $* (see above, and $log)"
  }
}

# The mirror this machine uses itself is one that it can reach.
apt_mirror() {
  # shellcheck disable=SC2016  # apt-get fills it in
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null | sort -u | head -1
}

# A registry that swallows packets would otherwise hold the build for minutes.
pull() {
  builder pull --quiet "$1" &
  wait_for "$1 to be pulled" 120 ended $! || kill $!
  wait $!
}

ended() { ! kill -0 "$1"; }

# make_base IMAGE [DIGEST]: under its public name, from packages where it cannot be pulled.
make_base() {
  local image=$1 public=$1
  [[ -z ${2:-} ]] || public=${image%:*}@$2
  if builder inspect --type image "$image" >/dev/null 2>&1; then return; fi
  require_disk "$CACHE"
  say "pulling $public"
  mkdir -p "$LOGS_BUILD"
  if (pull "$public") >"$LOGS_BUILD/pull.log" 2>&1; then
    [[ $public == "$image" ]] || builder tag "$public" "$image"
    return
  fi
  case $image in
  */node:*) make_node "$image" ;;
  *) make_debian "$image" ;;
  esac
}

# make_debian IMAGE
make_debian() {
  local image=$1 suite=${1##*:} mirror work
  suite=${suite%-slim}
  require_commands mmdebstrap
  mirror=$(apt_mirror)
  say "could not pull $image (see $LOGS_BUILD/pull.log): building it with mmdebstrap"
  work=$CACHE/base-$suite.tar
  # policy-rc.d: as in the public image, packages must not start their daemons,
  # which in a chroot build would run on this very machine.
  # shellcheck disable=SC2016  # mmdebstrap's hook fills it in
  quietly "$LOGS_BUILD/base-$suite.log" mmdebstrap --variant=minbase \
    --customize-hook='printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d"; chmod 0755 "$1/usr/sbin/policy-rc.d"' \
    "$suite" "$work" ${mirror:+"$mirror"}
  import_base "$image" "$work"
  rm -f "$work"
}

# make_node IMAGE: Debian and the node program, which comes in a package of npm's.
make_node() {
  local image=$1 major=${1##*:} architecture work container
  major=${major%-slim}
  require_commands npm
  case $(uname -m) in
  x86_64) architecture=x64 ;;
  aarch64) architecture=arm64 ;;
  *) die "npm has no node program for $(uname -m)" ;;
  esac
  make_base "$NODE_DEBIAN"
  say "could not pull $image (see $LOGS_BUILD/pull.log): building it from $NODE_DEBIAN and npm's node $major"
  work=$(mktemp -d)
  quietly "$LOGS_BUILD/node-$major.log" npm pack --silent --pack-destination "$work" "node-linux-$architecture@$major"
  tar -xf "$work"/*.tgz -C "$work" package/bin/node
  container=$(builder from "$NODE_DEBIAN")
  builder add --quiet --chmod 0755 "$container" "$work/package/bin/node" /usr/local/bin/node >/dev/null
  builder config --cmd node "$container"
  builder commit --quiet --rm "$container" "$image" >/dev/null
  rm -rf "$work"
}

import_base() {
  local container
  container=$(builder from scratch)
  builder add --quiet "$container" "$2" / >/dev/null
  builder config --cmd bash "$container"
  builder commit --quiet --rm "$container" "$1" >/dev/null
}

# docker_image NAME CONTAINERFILE CONTEXT: into kind's nodes. Where kind is, docker is too, and root is not needed.
docker_image() {
  require_kind
  say "building image $1 and loading it into kind"
  mkdir -p "$LOGS_BUILD"
  quietly "$LOGS_BUILD/image.log" docker build --tag "$1" --file "$2" "$3"
  quietly "$LOGS_BUILD/image.log" kind load docker-image --name dragstrip "$1"
}

# provide_image NAME CONTAINERFILE CONTEXT: builds an image and loads it into the cluster of the current mode.
provide_image() {
  if [[ $CLUSTER == kind ]]; then
    docker_image "$@"
  else
    build_image "$@"
    load_archive "$(archive_of "$1")"
  fi
}

# build_image NAME CONTAINERFILE CONTEXT: into the archive of that name.
build_image() {
  local name=$1 containerfile=$2 context=$3 archive inputs base digest from=()
  [[ -r $containerfile ]] || die "no such Containerfile: $containerfile"
  [[ -d $context ]] || die "no such context directory: $context"
  archive=$(archive_of "$name")
  inputs=$(hash_inputs "$containerfile" "$context")
  if [[ -s $archive && $(cat "$archive.inputs" 2>/dev/null) == "$inputs" ]]; then return; fi
  mkdir -p "$ARCHIVES" "$LOGS_BUILD"
  # A stand-in has another digest than the one in the file: the base is named here, without it.
  while read -r base digest; do
    make_base "$base" "$digest"
    from=(--from "$base")
  done < <(sed -nE 's#^FROM +(docker.io/library/(debian:[a-z]+|node:[0-9]+)-slim)(@(sha256:[0-9a-f]{64}))?.*#\1 \4#p' "$containerfile")
  say "building image $name"
  quietly "$LOGS_BUILD/image.log" builder bud --isolation chroot --pull-never --timestamp 0 "${from[@]}" --tag "$name" \
    --file "$containerfile" "$context"
  rm -f "$archive"
  quietly "$LOGS_BUILD/image.log" builder push "$name" "docker-archive:$archive.new:$name"
  mv "$archive.new" "$archive"
  echo "$inputs" >"$archive.inputs"
}

# image_digest NODE NAME: empty where the node lacks it.
image_digest() { ctr_node "$1" images ls "name==$2" | awk 'NR > 1 { print $3 }'; }

# load_into NODE NAME ARCHIVE: unless the node has this very content.
load_into() {
  local node=$1 name=$2 archive=$3 record wanted
  record=$(node_dir "$node")/loaded/$(basename "$archive")
  wanted=$(stat -c '%s %Y' "$archive")
  if [[ -n $(image_digest "$node" "$name") && $(cat "$record" 2>/dev/null) == "$wanted $(image_digest "$node" "$name")" ]]; then return; fi
  ctr_node "$node" images import --snapshotter overlayfs "$archive" >/dev/null
  # A release's chart names its images by digest, under which a pull would have stored them.
  [[ $(transport_of "$archive") != oci-archive ]] ||
    ctr_node "$node" images tag --force "$name" "${name%:*}@$(image_digest "$node" "$name")" >/dev/null
  mkdir -p "$(dirname "$record")"
  echo "$wanted $(image_digest "$node" "$name")" >"$record"
  say "loaded $name into $(node_name "$node")"
}

# transport_of ARCHIVE: what it is, in skopeo's words.
transport_of() {
  case $(tar -tf "$1") in
  *index.json*) echo oci-archive ;;
  *) echo docker-archive ;;
  esac
}

# name_in ARCHIVE: of the image that it has.
name_in() {
  case $(transport_of "$1") in
  oci-archive) tar -xOf "$1" index.json | jq -er '.manifests[0].annotations["org.opencontainers.image.ref.name"]' ;;
  *) tar -xOf "$1" manifest.json | jq -er '.[0].RepoTags[0]' ;;
  esac
}

# push_archive ARCHIVE NAME: to REGISTRY, from where the current cluster takes it.
push_archive() {
  [[ -n ${REGISTRY:-} ]] ||
    die "CLUSTER=current needs a registry that the cluster can reach and you can push to: set REGISTRY, such as REGISTRY=ghcr.io/OWNER"
  require_commands skopeo
  say "pushing $REGISTRY/${2#*/}"
  skopeo copy --quiet --all "$(transport_of "$1"):$1" "docker://$REGISTRY/${2#*/}"
}

# load_archive ARCHIVE: into the cluster of the current mode.
load_archive() {
  local archive=$1 name node jobs=() job
  [[ -r $archive ]] || die "no such image archive: $archive"
  name=$(name_in "$archive") ||
    die "$archive is not a docker-archive or OCI archive with an image name (create one with: buildah push IMAGE docker-archive:FILE:NAME)"
  case $CLUSTER in
  kind)
    kind load image-archive --name dragstrip "$archive"
    return
    ;;
  current)
    push_archive "$archive" "$name"
    return
    ;;
  esac
  for node in "${NODES[@]}"; do
    running "containerd:$node" || die "containerd of node $node does not run: run 'testbed/cluster up' first"
    load_into "$node" "$name" "$archive" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || die "could not load $archive: see above"; done
}

# build_program_image NAME PROGRAM [build_image|provide_image]: a static program in an empty image.
build_program_image() {
  local name=$1 program=$2 build=${3:-build_image} context
  context=$(mktemp -d)
  cp "$program" "$context/$(basename "$program")"
  printf 'FROM scratch\nCOPY %s /\nENTRYPOINT ["/%s"]\n' "$(basename "$program")" "$(basename "$program")" >"$context.Containerfile"
  "$build" "$name" "$context.Containerfile" "$context"
  rm -rf "$context" "$context.Containerfile"
}

# What a cluster cannot start without.
build_system_images() {
  mkdir -p "$BIN"
  [[ $BIN/pause -nt $TESTBED/images/pause/pause.c ]] ||
    gcc -Os -static -s -Wall -o "$BIN/pause" "$TESTBED/images/pause/pause.c"
  build_program_image "$PAUSE_IMAGE" "$BIN/pause"
  build_program_image "$COREDNS_IMAGE" "$BIN/coredns"
}

# build_testbed_image DIRECTORY: where there is a `prepare`, it brings what the
# Containerfile copies and no package manager has.
build_testbed_image() {
  local directory=$1 name context=$1
  name=$(sed -n 's/^LABEL org.opencontainers.image.ref.name="\(.*\)"$/\1/p' "$directory/Containerfile")
  [[ -n $name ]] || die "$directory/Containerfile has no LABEL org.opencontainers.image.ref.name"
  if [[ -x $directory/prepare ]]; then
    context=$CACHE/contexts/$(basename "$directory")
    mkdir -p "$context"
    quietly "$LOGS_BUILD/prepare-$(basename "$directory").log" "$directory/prepare" "$context"
  fi
  provide_image "$name" "$directory/Containerfile" "$context"
}
