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

chart_archive() { echo "dragstrip-$VERSION.tgz"; }
