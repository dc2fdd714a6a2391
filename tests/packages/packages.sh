#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the library into an empty folder and builds programs of other projects
# against it: C and C++ through pkg-config, shared and static, and through CMake.
# Runs in the build folder.
set -u
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
if grep -q '^AM_CFLAGS.*-fsanitize\|^CFLAGS.*-fsanitize' Makefile; then
    echo "skipped: programs without sanitizers cannot link this build"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
rc=0
fail() {
    echo "FAIL: $*"
    rc=1
}

# ---- installed files
make install-includeHEADERS install-libLTLIBRARIES install-man3 \
    install-nodist_pkgconfigDATA install-nodist_cmakeDATA \
    DESTDIR="$work" >"$work/install.log" 2>&1 || {
    tail -n 20 "$work/install.log"
    exit 1
}
pc=$(find "$work" -name libinfer.pc)
libdir=$(dirname "$(dirname "$pc")")
[ -n "$pc" ] || { echo "FAIL: no libinfer.pc"; exit 1; }
[ -n "$(find "$work" -name libinfer.3)" ] || fail "libinfer.3 is not installed"
shared=no
[ -e "$libdir/libinfer.so" ] && shared=yes
./wconv "$src/samples/digits/digits.safetensors" -o "$work/digits.infer" \
    --arch="$src/samples/digits/digits.json" >"$work/wconv.log" 2>&1 || {
    cat "$work/wconv.log"
    exit 1
}
images=$src/samples/digits/images
export LD_LIBRARY_PATH="$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export OMP_NUM_THREADS=1

# expect PROGRAM LINE ARGUMENTS...: it prints the line.
expect() {
    program=$1 line=$2
    shift 2
    "$program" "$@" >"$work/out" 2>&1 || fail "$program: exit status $?"
    grep -qxF "$line" "$work/out" || {
        fail "$program: no line '$line'"
        head -n 20 "$work/out"
    }
}

# ---- pkg-config
cc=${CC:-cc}
cxx=${CXX:-c++}
flags() {
    PKG_CONFIG_SYSROOT_DIR=$work PKG_CONFIG_PATH=$(dirname "$pc") \
        pkg-config "$@" "${library:-libinfer}"
}
# shellcheck disable=SC2046,SC2086
try() {
    out=$1
    shift
    echo "$*" >"$work/command"
    "$@" -o "$work/$out" >"$work/log" 2>&1 && return 0
    fail "$(cat "$work/command")"
    head -n 20 "$work/log"
    return 1
}
strict="-Wall -Wextra -pedantic -Werror"
if command -v pkg-config >/dev/null; then
    kind=--libs
    [ $shared = yes ] || kind="--static --libs"
    for sample in classify batches stream; do
        # shellcheck disable=SC2046,SC2086
        try $sample $cc -std=gnu11 $strict "$src/samples/$sample.c" \
            $(flags --cflags $kind) -lpthread
    done
    # shellcheck disable=SC2046,SC2086
    try user $cxx -std=c++17 $strict "$src/tests/packages/user.cc" \
        $(flags --cflags $kind)
    # The program of README.md.
    sed -n '/^    #include <stdio.h>$/,/^    }$/s/^    //p' "$src/README.md" >"$work/readme.c"
    # shellcheck disable=SC2046,SC2086
    try readme $cc -std=gnu11 $strict "$work/readme.c" $(flags --cflags $kind)
    cp "$images/7.png" "$work"
    (cd "$work" && ./readme) >"$work/out" 2>&1
    grep -qx seven "$work/out" || fail "README.md: $(cat "$work/out")"
    expect "$work/classify" "7 seven" "$work/digits.infer" "$images/7.png"
    expect "$work/batches" "$images/3.png: three" "$work/digits.infer" 2 3 \
        "$images/0.png" "$images/1.png" "$images/2.png" "$images/3.png" \
        "$images/4.png"
    [ "$(grep -c : "$work/out")" -eq 5 ] || fail "batches: not five lines"
    expect "$work/stream" "frame 3: nine" "$work/digits.infer" 200 4 \
        "$images/0.png" "$images/9.png"
    grep -q '^4 frames, ' "$work/out" || fail "stream: no last line"
    expect "$work/user" "same memory" "$work/digits.infer"
    if [ -e "$libdir/libinfer.a" ]; then
        # shellcheck disable=SC2046,SC2086
        try static $cc "$src/samples/classify.c" $(flags --cflags) \
            "$libdir/libinfer.a" $(flags --static --libs | sed 's/-linfer //')
        LD_LIBRARY_PATH='' expect "$work/static" "7 seven" \
            "$work/digits.infer" "$images/7.png"
    fi
    if [ -e "$libdir/libinfer_train.a" ]; then
        library=libinfer_train
        # shellcheck disable=SC2046,SC2086
        try train_stripes $cc -std=gnu11 $strict "$src/samples/train_stripes.c" \
            $(flags --cflags --libs) -lm
        library=
        expect "$work/train_stripes" "1000 of 1000 new pictures right" \
            "$work/stripes.safetensors" 200
        ./wconv -q "$work/stripes.safetensors" -o "$work/stripes.infer" --verify ||
            fail "wconv of the checkpoint"
    fi
else
    echo "pkg-config is not here: not tried"
fi

# ---- CMake, with the installation moved
if command -v cmake >/dev/null; then
    mkdir "$work/moved"
    mv "$work$(sed -n 's/^prefix=//p' "$pc")" "$work/moved/libinfer"
    LD_LIBRARY_PATH=$(dirname "$(dirname "$(find "$work/moved" -name '*.pc')")")
    { cmake -S "$src/tests/packages" -B "$work/cmake" \
        -DCMAKE_PREFIX_PATH="$work/moved/libinfer" -DSAMPLES="$src/samples" \
        -DCMAKE_C_COMPILER="${cc##* }" -DCMAKE_CXX_COMPILER="${cxx##* }" &&
        cmake --build "$work/cmake"; } >"$work/cmake.log" 2>&1 || {
        fail "CMake"
        tail -n 30 "$work/cmake.log"
    }
    expect "$work/cmake/classify" "7 seven" "$work/digits.infer" "$images/7.png"
    expect "$work/cmake/user" "same memory" "$work/digits.infer"
    if [ -e "$work/cmake/classify_static" ]; then
        LD_LIBRARY_PATH='' expect "$work/cmake/classify_static" "7 seven" \
            "$work/digits.infer" "$images/7.png"
    fi
    if [ -e "$work/cmake/train_stripes" ]; then
        "$work/cmake/train_stripes" "$work/one.safetensors" 1 >"$work/out" 2>&1
        grep -q '^step 1: loss 2' "$work/out" || fail "CMake: train_stripes"
    fi
else
    echo "cmake is not here: find_package() is not tried"
fi
[ $rc -eq 0 ] && echo "programs build and run (shared library: $shared)"
exit $rc
