#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/oci/Containerfile, from the tar file of a release: buildah builds the image,
# infer classifies a picture in it.  The base image is made by debootstrap, so that
# Debian's mirror alone is needed.  Needs root, buildah and debootstrap; skips
# without.
#
# usage: tests/packages/oci.sh libinfer-VERSION.tar.xz
set -eu
tar=$(realpath "$1")
mirror=${MIRROR:-http://deb.debian.org/debian}
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "a chroot needs root"
for tool in debootstrap buildah; do
    command -v $tool >/dev/null || skip "$tool is not here"
done
work=$(mktemp -d) || exit 1
store="--root $work/store --runroot $work/run --storage-driver vfs"
# SC2086: several options.
# shellcheck disable=SC2086
run_buildah() { buildah $store "$@"; }
trap 'run_buildah rm --all >/dev/null 2>&1; rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM

debootstrap --variant=minbase bookworm "$work/base" "$mirror" >"$work/log" 2>&1 ||
    skip "debootstrap: $(tail -n 1 "$work/log")"
base=$(run_buildah from scratch)
run_buildah add -q "$base" "$work/base" / >/dev/null
run_buildah commit -q "$base" docker.io/library/debian:bookworm-slim >/dev/null
run_buildah rm "$base" >/dev/null
rm -rf "$work/base"

mkdir "$work/source"
tar -xf "$tar" -C "$work/source" --strip-components=1
echo "Building the image"
run_buildah bud --isolation=chroot --network=host --pull-never -t libinfer \
    -f "$work/source/tools/oci/Containerfile" "$work/source" >"$work/log" 2>&1 || {
    tail -n 40 "$work/log"
    exit 1
}
run_buildah images
echo "Using it"
image=$(run_buildah from --pull-never libinfer)
run_buildah copy -q "$image" "$work/source/samples/digits" /data/digits >/dev/null
run_buildah run --isolation=chroot "$image" -- sh -ec '
    cd /data
    wconv digits/digits.safetensors --arch=digits/digits.json -o digits.infer --verify
    infer -m digits.infer -k 1 digits/images
    infer -m digits.infer --bench --duration=0.2
    ! command -v gcc' >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
grep -A 1 '/7.png$' "$work/log" | grep '  7  seven'
