#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package against this build folder and runs its tests.  Skips
# where Python 3.11 with its headers, pip, setuptools, wheel, NumPy or pytest is
# missing.  PYTHON names the interpreter; by default the first that has all of these,
# python3 in PATH or the system's.  Runs in the build folder.
set -u
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
build=$(pwd)
skip() {
    echo "skipped: $*"
    exit 77
}
# fits INTERPRETER: prints what it lacks.
fits() {
    command -v "$1" >/dev/null || return
    "$1" - <<'END'
import importlib.util, os, sys, sysconfig
missing = [m for m in ("pip", "setuptools", "wheel", "numpy", "pytest")
           if importlib.util.find_spec(m) is None]
if sys.version_info < (3, 11):
    missing.append("version 3.11")
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    missing.append("Python.h")
if missing:
    print(sys.executable, "lacks", ", ".join(missing))
sys.exit(bool(missing))
END
}
python=
for one in ${PYTHON:-python3 /usr/bin/python3}; do
    if fits "$one"; then
        python=$one
        break
    fi
done
[ -n "$python" ] || skip "no interpreter has all of these"
if grep -q '^AM_CFLAGS.*-fsanitize' Makefile; then
    skip "an interpreter without sanitizers cannot load this build"
fi
[ -e .libs/libinfer.a ] || skip "there is no static library in this build"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# pip leaves files in the source folder.
mkdir "$work/tree" "$work/tree/tools"
cp -R "$src/tools/python" "$work/tree/tools/"
cp -R "$src/include" "$work/tree/"
LIBINFER_BUILD=$build CFLAGS="-Wall -Wextra -Werror ${CFLAGS-}" \
    "$python" -m pip install -q --no-build-isolation --no-deps --no-index \
    --target "$work/site" "$work/tree/tools/python" >"$work/log" 2>&1 || {
    tail -n 30 "$work/log"
    exit 1
}
# Without a library the message says how to have one.
(cd "$work/tree/tools/python" && unset LIBINFER_BUILD &&
    PKG_CONFIG=false "$python" setup.py -q egg_info >"$work/log" 2>&1)
grep -q 'LIBINFER_BUILD=FOLDER pip install' "$work/log" || {
    tail -n 5 "$work/log"
    exit 1
}
cd "$work" || exit 1
# The program of README.md.
sed -n '/^    import libinfer$/,/# seven$/s/^    //p' "$src/README.md" >readme.py
mkdir samples && cp -R "$src/samples/digits" samples/
said=$(PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}" "$python" readme.py)
[ "$said" = seven ] || {
    echo "README.md's program says '$said', not seven"
    exit 1
}
# The stubs say what the modules are, where mypy is here.
if "$python" -c 'import mypy.stubtest' 2>/dev/null; then
    PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}" \
        "$python" -m mypy.stubtest libinfer || exit 1
fi
DIGITS=$src/samples/digits OMP_NUM_THREADS=1 \
    PYTHONPATH="$work/site${PYTHONPATH:+:$PYTHONPATH}" \
    "$python" -m pytest -q -p no:cacheprovider "$src/tests/python"
