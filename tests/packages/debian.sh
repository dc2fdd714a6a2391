#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Debian packages from a tar file: built in a chroot that holds what control
# names and nothing else, read by lintian, installed in a second, bare chroot, and
# used there by their autopkgtests.  Needs root, debootstrap, dpkg-dev, lintian,
# autopkgtest and a mirror; skips without.
#
# usage: tests/packages/debian.sh libinfer-VERSION.tar.xz
# MIRROR=URL     by default http://deb.debian.org/debian
# KEEP=FOLDER    the packages are copied there
set -eu
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
tar=$(realpath "$1")
mirror=${MIRROR:-http://deb.debian.org/debian}
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "a chroot needs root"
for tool in debootstrap dpkg-source lintian autopkgtest; do
    command -v $tool >/dev/null || skip "$tool is not here"
done
work=$(mktemp -d) || exit 1
cleanup() {
    for root in build clean; do
        umount -q "$work/$root/dev/pts" "$work/$root/dev" "$work/$root/proc" || true
    done
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# enter FOLDER COMMAND...
enter() {
    root=$1
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
        DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS=nocheck \
        MAKEFLAGS="-j$(nproc)" chroot "$root" "$@"
}

debootstrap --variant=minbase bookworm "$work/clean" "$mirror" >"$work/log" 2>&1 ||
    skip "debootstrap: $(tail -n 1 "$work/log")"
cp -L /etc/resolv.conf "$work/clean/etc/"
cp -a "$work/clean" "$work/build"
for root in build clean; do
    mount -t proc proc "$work/$root/proc"
    mount --bind /dev "$work/$root/dev"
    mount --bind /dev/pts "$work/$root/dev/pts"
done

"$src/tools/debian/build" "$tar" "$work/build/packages"
echo "Building the packages"
enter "$work/build" sh -ec '
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends build-essential fakeroot
    cd /packages/libinfer-*/
    apt-get -qq build-dep -y --no-install-recommends ./
    dpkg-buildpackage -us -uc' >"$work/log" 2>&1 || {
    tail -n 40 "$work/log"
    exit 1
}
cd "$work/build/packages"
ls -l ./*.deb
echo "lintian:"
lintian --allow-root --fail-on error,warning --profile debian ./*.changes
echo "Installing and using them in a bare chroot"
autopkgtest -B ./*.deb ./*.dsc -- chroot "$work/clean" >"$work/log" 2>&1 || {
    tail -n 60 "$work/log"
    exit 1
}
grep -A 9 '@ summary' "$work/log"
[ -z "${KEEP-}" ] || cp ./*.deb ./*.dsc ./*.tar.xz ./*.changes "$KEEP"
