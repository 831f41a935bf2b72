# shellcheck shell=bash disable=SC2034  # read by the files that source this one
# What a release is called, and what belongs to it.

VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
readonly VERSION
readonly ARCHITECTURES=(amd64 arm64)
readonly IMAGES=(operator runner bullmq)
readonly REGISTRY=${REGISTRY:-dragstrip.dev}
readonly DOWNLOADS=${DOWNLOADS:-https://dragstrip.dev/releases/v$VERSION}

image_reference() { echo "$REGISTRY/$1:$VERSION"; }

# image_archive IMAGE: its file, an OCI layout of all architectures.
image_archive() { echo "dragstrip-$1-$VERSION.oci.tar"; }

# archived_digest IMAGE: digest of the archive's top manifest, the index over all architectures. Pushed as it
# is (--preserve-digests), the image has the same one in every registry.
archived_digest() { echo "sha256:$(skopeo inspect --raw "oci-archive:$OUT/$(image_archive "$1")" | sha256sum | cut -d' ' -f1)"; }

chart_archive() { echo "dragstrip-$VERSION.tgz"; }
