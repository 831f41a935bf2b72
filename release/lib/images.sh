# shellcheck shell=bash
# Images of a release: one OCI archive each, with an index over the architectures.

declare -A BASE_DIGESTS=()

containerfile_of() {
  case $1 in
  operator) echo operator/Containerfile ;;
  *) echo "bench-jobs/$1/Containerfile" ;;
  esac
}

# base_of IMAGE: what its Containerfile stands on, and the digest of that; nothing for an empty one.
base_of() { sed -nE '/^FROM +scratch/d; s/^FROM +([^ @]+)@(sha256:[0-9a-f]{64}).*/\1 \2/p' "$(containerfile_of "$1")"; }

# resolve_base BASE DIGEST: keeps the digest, which is that of all architectures together,
# or an empty one where no registry answers.
resolve_base() {
  local base=$1 digest=$2
  [[ ! -v BASE_DIGESTS[$base] ]] || return 0
  BASE_DIGESTS[$base]=
  if timeout 60 skopeo inspect --raw "docker://${base%:*}@$digest" >/dev/null 2>"$WORK/base.log"; then
    BASE_DIGESTS[$base]=$digest
    say "$base is $digest"
  else
    say "$base: no registry answers ($(tail -c 120 "$WORK/base.log" | tr '\n' ' ')): a stand-in is made, not to be published"
  fi
}

# stand_in BASE ARCHITECTURE: prints the name of an image to build on instead.
stand_in() {
  local base=$1 architecture=$2 name
  name=localhost/release/$(basename "$base")-$architecture
  if [[ $architecture == "$(host_architecture)" ]]; then
    make_base "$base" >&2
    echo "$base"
  else
    builder inspect --type image "$name" >/dev/null 2>&1 || make_foreign_node "$name" "$base" "$architecture" >&2
    echo "$name"
  fi
}

host_architecture() {
  case $(uname -m) in
  x86_64) echo amd64 ;;
  aarch64) echo arm64 ;;
  *) uname -m ;;
  esac
}

# make_foreign_node NAME BASE ARCHITECTURE: Debian's packages unpacked and not configured,
# since nothing of another architecture runs here, and the node program from npm's package.
make_foreign_node() {
  local name=$1 major=${2##*:} architecture=$3 mirror container
  major=${major%-slim}
  require_commands mmdebstrap
  mirror=$(apt_mirror)
  say "making $name from Debian's packages and npm's node $major"
  quietly "$LOGS_BUILD/release-base.log" mmdebstrap --variant=extract --architectures="$architecture" \
    --include=libstdc++6 bookworm "$WORK/root.tar" ${mirror:+"$mirror"}
  quietly "$LOGS_BUILD/release-node.log" npm pack --silent --pack-destination "$WORK" \
    "node-linux-${architecture/amd64/x64}@$major"
  tar -xf "$WORK"/node-linux-*.tgz -C "$WORK" package/bin/node
  container=$(builder from --platform "linux/$architecture" scratch)
  builder add --quiet "$container" "$WORK/root.tar" / >/dev/null
  builder add --quiet --chmod 0755 "$container" "$WORK/package/bin/node" /usr/local/bin/node >/dev/null
  builder config --arch "$architecture" --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --cmd node "$container"
  builder commit --quiet --rm "$container" "$name" >/dev/null
  rm -rf "$WORK"/root.tar "$WORK"/package "$WORK"/node-linux-*.tgz
}

# build_for IMAGE ARCHITECTURE LIST: adds the image of one architecture to the list.
build_for() {
  local image=$1 architecture=$2 list=$3 base digest pull=(--pull-never) annotations=()
  read -r base digest < <(base_of "$image") || true # an image of programs alone has none
  if [[ -n $base ]]; then
    resolve_base "$base" "$digest"
    if [[ -n ${BASE_DIGESTS[$base]} ]]; then
      pull=(--pull-always --from "${base%:*}@${BASE_DIGESTS[$base]}")
      annotations=(--annotation "org.opencontainers.image.base.name=$base"
        --annotation "org.opencontainers.image.base.digest=${BASE_DIGESTS[$base]}")
    else
      pull+=(--from "$(stand_in "$base" "$architecture")")
    fi
  fi
  quietly "$LOGS_BUILD/release-$image-$architecture.log" builder bud --isolation chroot --timestamp 0 \
    --platform "linux/$architecture" "${pull[@]}" "${annotations[@]}" --manifest "$list" --iidfile "$WORK/$image-$architecture" \
    --label "org.opencontainers.image.title=dragstrip-$image" --label "org.opencontainers.image.version=$VERSION" \
    --label "org.opencontainers.image.licenses=Apache-2.0" \
    --label "org.opencontainers.image.revision=$(git rev-parse HEAD)" \
    --file "$(containerfile_of "$image")" "$PROGRAMS/$architecture/$image"
}

# make_image IMAGE
make_image() {
  local image=$1 list=localhost/release/$1 architecture built
  say "building $(image_reference "$image") for ${ARCHITECTURES[*]}"
  builder manifest rm "$list" >/dev/null 2>&1 || true # there is none the first time
  builder manifest create "$list" >/dev/null
  for architecture in "${ARCHITECTURES[@]}"; do build_for "$image" "$architecture" "$list"; done
  quietly "$LOGS_BUILD/release-$image.log" builder manifest push --all --format oci "$list" \
    "oci-archive:$OUT/$(image_archive "$image"):$(image_reference "$image")"
  builder manifest rm "$list" >/dev/null
  mapfile -t built < <(sort -u "$WORK/$image"-*)
  builder rmi "${built[@]}" >/dev/null
}

# record_bases: a digest of null says that the image stands on a stand-in.
record_bases() {
  local base
  for base in "${!BASE_DIGESTS[@]}"; do
    jq -n --arg image "$base" --arg digest "${BASE_DIGESTS[$base]}" \
      '{image: $image, digest: (if $digest == "" then null else $digest end)}'
  done | jq -s . >"$OUT/base-images.json"
}
