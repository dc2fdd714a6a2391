# SPDX-License-Identifier: Apache-2.0
# Read by the tests of packages: a working folder, bare Debian 12 systems in it, and
# commands within them.  MIRROR names a mirror of Debian.
# shellcheck shell=sh
mirror=${MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d) || exit 1
roots=

skip() {
    echo "skipped: $*"
    exit 77
}

# need TOOL...: skips where one is missing, and without root.
need() {
    [ "$(id -u)" = 0 ] || skip "a chroot needs root"
    for tool in "$@"; do
        command -v "$tool" >/dev/null || skip "$tool is not here"
    done
}

leave() {
    for root in $roots; do
        umount -q "$root/dev/pts" "$root/dev" "$root/proc" || true
    done
    rm -rf --one-file-system "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

# bare_system FOLDER: Debian's smallest installation.
bare_system() {
    debootstrap --variant=minbase bookworm "$1" "$mirror" >"$work/log" 2>&1 ||
        skip "debootstrap: $(tail -n 1 "$work/log")"
    cp -L /etc/resolv.conf "$1/etc/"
}

# open_system FOLDER: /proc and /dev for what runs in it.
open_system() {
    mount -t proc proc "$1/proc"
    mount --bind /dev "$1/dev"
    mount --bind /dev/pts "$1/dev/pts"
    roots="$roots $1"
}

# enter FOLDER COMMAND...; the output goes to the log, which is shown on failure.
enter() {
    root=$1
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
        DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS=nocheck \
        MAKEFLAGS="-j$(nproc)" chroot "$root" "$@" >"$work/log" 2>&1 || {
        tail -n 60 "$work/log"
        exit 1
    }
}
