#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Loses power after each write, sync and rename of wconv and train (powerloss.c):
# the output is always the file before or a whole new one, and the new one is on
# the disk when the tool ends.  The same without the tools' fsync() must be
# noticed.  TRIALS=N losses at each place (default 20).  Run by make check.
. "${srcdir:-.}/tests/conformance/expect.sh"

record=$here/tests/faults/.libs/record.so
[ -f "$record" ] || { echo "skipped: no shared objects in this build"; exit 77; }
trials=${TRIALS:-20}
skip= # 1: the tools' fsync() is left out
mkdir "$dir/w"

# lose EXPECTED WHAT COMMAND...: records a command that writes $dir/w/f, and
# loses power in it.
lose() {
    want=$1 what=$2
    shift 2
    rm -f "$dir/log" "$dir"/w/*
    old=-
    if [ -n "$before" ]; then
        cp "$before" "$dir/w/f"
        old=$before
    fi
    env ${skip:+RECORD_SKIP=1} RECORD_LOG="$dir/log" RECORD_DIR="$dir/w" LD_PRELOAD="$record" \
        "$@" >"$dir/out" 2>&1 || fail "$what: $(cat "$dir/out")"
    "$here/tests/faults/powerloss" "$dir/log" "$dir/w/f" "$old" "$trials" \
        >"$dir/verdict"
    got=$?
    [ "$got" = "$want" ] || fail "$what: exit $got, not $want"
    echo "$what: $(tail -n 1 "$dir/verdict")"
}

weights=$src/samples/digits/digits.safetensors
arch=--arch=$src/samples/digits/digits.json
before=
lose 0 "wconv, a new file" "$here/wconv" "$weights" "$arch" -o "$dir/w/f" -q
cp "$dir/w/f" "$dir/before"
before=$dir/before
set -- "$here/wconv" "$src/tests/data/seed_model.keras" -o "$dir/w/f" -q
lose 0 "wconv, over a file" "$@"
skip=1
lose 1 "wconv, without fsync" "$@"
skip=

for part in train test; do
    for digit in 0 1 2 3 4 5 6 7 8 9; do
        mkdir -p "$dir/data/$part/$digit"
        cp "$src/samples/digits/images/$digit.png" "$dir/data/$part/$digit"
    done
done
before=
set -- "$here/train" --arch="$src/tests/arch/tiny.json" --data="$dir/data" \
    -b 5 --threads=1 --backend=ref --optimizer=adam --lr=0.01 -q \
    --tune-cache= --steps=6 --snapshot=1 -o "$dir/w/f"
lose 0 "train, six checkpoints" "$@"
skip=1
lose 1 "train, without fsync" "$@"
[ "$failed" = 0 ]
