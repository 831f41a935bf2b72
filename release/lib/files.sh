# shellcheck shell=bash
# The files of a release besides images: chart, manifest, krew manifest, bills of materials.

# The chart names the images where the release puts them, by digest: a tag may move.
package_chart() {
  local image
  say "packaging the chart"
  cp -R charts/dragstrip "$WORK/dragstrip"
  for image in "${IMAGES[@]}"; do
    sed -i -E "/^  digests:/,/^  [a-z]/s#^    $image: \"\"#    $image: $(archived_digest "$image")#" "$WORK/dragstrip/values.yaml"
  done
  sed -i -E "s#dragstrip\.dev/($(IFS='|' && echo "${IMAGES[*]}"))#$REGISTRY/\1#" "$WORK"/dragstrip/{values,Chart}.yaml
  quietly "$LOGS_BUILD/release-chart.log" "$HELM" package "$WORK/dragstrip" --destination "$OUT"
}

# install.yaml: the chart with its own values for the oldest Kubernetes that it admits, for
# those who have no helm. All that it admits hold policies; helm asks no apiserver here.
static_manifest() {
  local oldest
  oldest=$(sed -nE 's/^kubeVersion: .*>= *([0-9.]+).*/\1/p' charts/dragstrip/Chart.yaml)
  {
    printf 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: dragstrip-system\n'
    "$HELM" template dragstrip "$OUT/$(chart_archive)" --namespace dragstrip-system --kube-version "$oldest" \
      --api-versions admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy --no-hooks --skip-tests
  } >"$OUT/install.yaml"
}

# The quickstart with the engines' official images instead of the testbed's, and for one node, which is what
# `kind create cluster` makes.
quickstart() {
  sed -E -e '/dragstrip\.dev\/testbed/d' -e '/^# The images are/,/^[^#]/{/^#/d}' \
    -e 's#examples/##' -e 's/^  run:$/&\n    clients: {shareServerNode: true}/' examples/quickstart.yaml >"$OUT/quickstart.yaml"
}

# krew_platform OS ARCHITECTURE ARCHIVE
krew_platform() {
  cat <<YAML
  - selector:
      matchLabels: {os: $1, arch: $2}
    uri: $DOWNLOADS/$(basename "$3")
    sha256: $(sha256sum <"$3" | cut -d' ' -f1)
    bin: dragstrip
YAML
}

# For krew's index, where a manifest has its plugin's name; one platform for each archive.
krew_manifest() {
  local archive platform
  {
    cat <<YAML
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: dragstrip
spec:
  version: v$VERSION
  homepage: https://dragstrip.dev
  shortDescription: Follow benchmarks of in-memory datastores
  description: |
    Follows the BenchmarkRuns of the Dragstrip operator while they run, and
    prints their results side by side, with verdicts and what limited them.
  caveats: |
    Needs the Dragstrip operator in the cluster.
  platforms:
YAML
    for archive in "$OUT"/dragstrip-"$VERSION"-*.tar.gz; do
      platform=$(basename "$archive" .tar.gz)
      platform=${platform#"dragstrip-$VERSION-"}
      krew_platform "${platform%-*}" "${platform#*-}" "$archive"
    done
  } >"$OUT/dragstrip.yaml"
}

# bill_of_crate PACKAGE NAME: of the crates a program is made of. cargo-cyclonedx writes
# beside each Cargo.toml: a copy of the tree has it.
bill_of_crate() {
  local directory
  directory=$(cd "$WORK/tree" && cargo metadata --quiet --no-deps --format-version 1 |
    jq -r --arg name "$1" '.packages[] | select(.name == $name).manifest_path | rtrimstr("/Cargo.toml")')
  sed "s#$WORK/tree#/dragstrip#g" "$directory/bom.json" >"$OUT/$2-$VERSION.cdx.json"
}

bills_of_materials() {
  say "writing the bills of materials"
  git checkout-index --all --prefix "$WORK/tree/"
  (cd "$WORK/tree" && quietly "$LOGS_BUILD/release-bom.log" env PATH="$DRAGSTRIP_CACHE/tools/bin:$PATH" \
    cargo cyclonedx --format json --override-filename bom --target all --no-build-deps)
  bill_of_crate dragstrip-operator dragstrip-operator
  bill_of_crate dragstrip-runner dragstrip-runner
  bill_of_crate dragstrip-loadgen dragstrip-loadgen
  bill_of_crate dragstrip-clients dragstrip-clients
  bill_of_crate dragstrip dragstrip-cli
  (cd "$PROGRAMS/${ARCHITECTURES[0]}/bullmq" && npm sbom --package-lock-only --sbom-format cyclonedx --omit dev) >"$OUT/dragstrip-bullmq-$VERSION.cdx.json"
}
