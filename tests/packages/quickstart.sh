#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# README's first command, samples/quickstart, in a bare Debian 12: from a clone of the
# commit that is checked out, without its built files.  Ten digits of ten are right.
# Needs root, debootstrap, git and a mirror; skips without.
#
# usage: tests/packages/quickstart.sh
set -eu
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
. "$src/tests/packages/chroot.sh"
need debootstrap git
[ -e "$src/.git" ] || skip "$src is no clone"

bare_system "$work/clean"
open_system "$work/clean"
git clone -q --depth 1 "file://$src" "$work/clean/libinfer"
echo "samples/quickstart --without-cuda"
enter "$work/clean" /libinfer/samples/quickstart --without-cuda
names='zero one two three four five six seven eight nine'
right=0 digit=0
for name in $names; do
    sed -n "/images\/$digit.png/{n;p;}" "$work/log" |
        grep -q "%  *$digit  $name " && right=$((right + 1))
    digit=$((digit + 1))
done
echo "$right digits of 10 are right"
[ $right = 10 ] && grep -q '^The tools are build/wconv' "$work/log" || {
    tail -n 40 "$work/log"
    exit 1
}
