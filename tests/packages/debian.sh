#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Debian packages from a tar file: built in a chroot that holds what control
# names and nothing else, read by lintian, installed in a second, bare chroot, and
# used there by their autopkgtests.  Needs root, debootstrap, dpkg-dev, lintian,
# autopkgtest and a mirror; skips without.
#
# usage: tests/packages/debian.sh libinfer-VERSION.tar.xz
# KEEP=FOLDER    the packages are copied there
set -eu
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
tar=$(realpath "$1")
. "$src/tests/packages/chroot.sh"
need debootstrap dpkg-source lintian autopkgtest

bare_system "$work/clean"
cp -a "$work/clean" "$work/build"
open_system "$work/build"
open_system "$work/clean"

"$src/tools/debian/build" "$tar" "$work/build/packages"
echo "Building the packages"
enter "$work/build" sh -ec '
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends build-essential fakeroot
    cd /packages/libinfer-*/
    apt-get -qq build-dep -y --no-install-recommends ./
    dpkg-buildpackage -us -uc'
cd "$work/build/packages"
ls -l ./*.deb
echo "lintian:"
lintian --allow-root --fail-on error,warning --profile debian ./*.changes
echo "Installing and using them in a bare chroot"
autopkgtest -B ./*.deb ./*.dsc -- chroot "$work/clean" >"$work/log" 2>&1 || {
    tail -n 60 "$work/log"
    exit 1
}
sed -n '/@@ summary/,/Binaries:/p' "$work/log" | grep 'PASS\|SKIP'
[ -z "${KEEP-}" ] || cp ./*.deb ./*.dsc ./*.tar.xz ./*.changes "$KEEP"
