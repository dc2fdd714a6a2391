#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/oci/Containerfile, from the tar file of a release: buildah builds the image,
# infer classifies a picture in it.  The base image is made by debootstrap, so that
# Debian's mirror alone is needed.  Needs root, buildah and debootstrap; skips
# without.
#
# usage: tests/packages/oci.sh libinfer-VERSION.tar.xz
set -eu
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
tar=$(realpath "$1")
. "$src/tests/packages/chroot.sh"
need debootstrap buildah

image_tool() {
    buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"
}
trap 'image_tool rm --all >/dev/null 2>&1; leave' EXIT

bare_system "$work/base"
base=$(image_tool from scratch)
image_tool add -q "$base" "$work/base" / >/dev/null
image_tool commit -q "$base" docker.io/library/debian:bookworm-slim >/dev/null
image_tool rm "$base" >/dev/null
rm -rf "$work/base"

mkdir "$work/source"
tar -xf "$tar" -C "$work/source" --strip-components=1
echo "Building the image"
image_tool bud --isolation=chroot --network=host --pull-never -t libinfer \
    -f "$work/source/tools/oci/Containerfile" "$work/source" >"$work/log" 2>&1 || {
    tail -n 40 "$work/log"
    exit 1
}
image_tool images
echo "Using it"
image=$(image_tool from --pull-never libinfer)
image_tool copy -q "$image" "$work/source/samples/digits" /data/digits >/dev/null
image_tool run --isolation=chroot "$image" -- sh -ec '
    cd /data
    wconv digits/digits.safetensors --arch=digits/digits.json -o digits.infer --verify
    infer -m digits.infer -k 1 digits/images
    infer -m digits.infer --bench --duration=0.2
    ! command -v gcc' >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
grep -A 1 '/7.png$' "$work/log" | grep '  7  seven'
