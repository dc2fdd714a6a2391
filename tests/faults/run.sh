#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes each allocation, open, read, write, fsync, rename and close of the tools
# fail, once and from then on: wconv of several formats, infer, a short training
# and its resumption.  No crash; exit 0 only with the whole result; no output of a
# run that failed, no temporary file, no block of memory that an unharmed run
# frees and a failing one does not.
#
# FAULTS=N faults a job and kind (default 12, spread over all calls); FAULTS=all:
# each.  Run by make check; the whole sweep by `make faults`.
# srcdir is set by make; inject.so and the tools lie in the current folder.
. "${srcdir:-.}/tests/conformance/expect.sh"

# How threads wait is fixed: no thread begins by the machine's load.
OMP_WAIT_POLICY=passive
export OMP_WAIT_POLICY

faults=${FAULTS:-12}
inject=$here/tests/faults/.libs/inject.so
[ -f "$inject" ] || { echo "skipped: no shared objects in this build"; exit 77; }
weights=$src/samples/digits/digits.safetensors
arch=--arch=$src/samples/digits/digits.json
runs=0

# with FAULT-SETTINGS... -- COMMAND...: runs it under the preload.
with() {
    settings=
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    env $settings LD_PRELOAD="$inject" "$@"
}

# check JOB RESULT KIND N FROM ERRNO COMMAND...: one fault.
check() {
    job=$1 result=$2 kind=$3 n=$4 from=$5 error=$6
    shift 6
    runs=$((runs + 1))
    rm -rf "$dir/run"
    mkdir "$dir/run"
    [ -z "$before" ] || cp "$before" "$dir/run/$result"
    rm -f "$dir/leaks"
    with "FAULT_CALL=$kind" "FAULT_N=$n" "FAULT_FROM=$from" \
        "FAULT_LEAKS=$dir/leaks" "FAULT_ERRNO=$error" -- "$@" \
        >"$dir/run/stdout" 2>"$dir/run/stderr"
    code=$?
    what="$job: $kind $n, from then on: $from: "
    leaks=$(head -n 1 "$dir/leaks" 2>/dev/null)
    [ "${leaks:-0}" -le "$kept" ] ||
        fail "$what $leaks blocks are not freed: $(tail -n +2 "$dir/leaks")"
    case $code in
    0)
        cmp -s "$dir/whole/$result" "$dir/run/$result" ||
            fail "$what exit 0 with another $result"
        ;;
    1 | 2 | 4)
        [ -s "$dir/run/stderr" ] || fail "$what exit $code without a word"
        # What was there stays, or the whole result is there.
        if [ "$result" != stdout ] && [ -e "$dir/run/$result" ] &&
            ! cmp -s "$dir/whole/$result" "$dir/run/$result" &&
            ! { [ -n "$before" ] && cmp -s "$before" "$dir/run/$result"; } &&
            [ "$job" != train ]; then
            fail "$what a part of $result"
        fi
        ;;
    *) fail "$what exit $code: $(tail -n 1 "$dir/run/stderr")" ;;
    esac
    for file in "$dir"/work/*.tmp; do
        [ ! -e "$file" ] || fail "$what $file is left"
    done
}

# sweep JOB RESULT COMMAND...: all kinds of faults of a command that writes
# $dir/run/RESULT (or standard output).
sweep() {
    job=$1 result=$2
    shift 2
    rm -rf "$dir/run" "$dir/whole"
    mkdir "$dir/run"
    [ -z "$before" ] || cp "$before" "$dir/run/$result"
    "$@" >"$dir/run/stdout" 2>"$dir/run/stderr" || {
        fail "$job fails without a fault: $(cat "$dir/run/stderr")"
        return
    }
    mv "$dir/run" "$dir/whole"
    mkdir "$dir/run"
    [ -z "$before" ] || cp "$before" "$dir/run/$result"
    with "FAULT_LEAKS=$dir/leaks" -- "$@" >"$dir/run/stdout" 2>&1
    kept=$(head -n 1 "$dir/leaks")
    [ "$kept" -le 8 ] || fail "$job: $kept blocks are not freed"
    for kind in memory open read write fsync rename close; do
        rm -rf "$dir/run"
        mkdir "$dir/run"
        [ -z "$before" ] || cp "$before" "$dir/run/$result"
        with "FAULT_CALL=$kind" "FAULT_COUNT=$dir/count" -- "$@" \
            >"$dir/run/stdout" 2>&1
        calls=$(cat "$dir/count")
        step=1
        [ "$faults" = all ] || step=$((calls / faults + 1))
        n=1
        while [ "$n" -le "$calls" ]; do
            check "$job" "$result" $kind "$n" 0 28 "$@"
            check "$job" "$result" $kind "$n" 1 5 "$@"
            n=$((n + step))
        done
    done
}

before=
sweep safetensors m.infer "$here/wconv" "$weights" "$arch" \
    -o "$dir/run/m.infer" -q
for format in keras h5; do
    sweep $format m.infer "$here/wconv" "$src/tests/data/seed_model.$format" \
        -o "$dir/run/m.infer" -q
done
sweep onnx m.infer "$here/wconv" "$src/tests/data/seed_net.onnx" \
    -o "$dir/run/m.infer" -q
sweep tflite m.infer "$here/wconv" "$src/tests/data/seed_net.tflite" \
    -o "$dir/run/m.infer" -q
"$here/wconv" "$weights" "$arch" -o "$dir/digits.infer" -q
for backend in auto ref; do
    sweep "infer, $backend" stdout "$here/infer" -m "$dir/digits.infer" \
        --backend=$backend --threads=1 --tune-cache= \
        "$src/samples/digits/images/3.png"
done
sweep "infer, JSON" stdout "$here/infer" -m "$dir/digits.infer" --json \
    --threads=1 --tune-cache= "$src/samples/digits/images/3.png"
"$here/infer" -m "$dir/digits.infer" --threads=1 --tune-cache= \
    --dump-layers="$dir/layers" "$src/samples/digits/images/3.png" >"$dir/out"
for file in "$dir"/layers/0000-*.npy; do
    [ -f "$file" ] && array=$file
done
sweep "infer, arrays" out.npy "$here/infer" -m "$dir/digits.infer" \
    --load-inputs="$array" --export-output="$dir/run/out.npy" --threads=1 \
    --tune-cache= -q
for part in train test; do
    for digit in 0 1 2 3 4 5 6 7 8 9; do
        mkdir -p "$dir/data/$part/$digit"
        cp "$src/samples/digits/images/$digit.png" "$dir/data/$part/$digit"
    done
done
run() {
    "$here/train" --arch="$src/tests/arch/tiny.json" --data="$dir/data" -b 5 \
        --threads=1 --backend=ref --optimizer=adam --lr=0.01 -q --tune-cache= "$@"
}
run -o "$dir/begun" --steps=2
set -- "$here/train" --arch="$src/tests/arch/tiny.json" --data="$dir/data" \
    -b 5 --threads=1 --backend=ref --optimizer=adam --lr=0.01 -q \
    --tune-cache= -o "$dir/run/w"
sweep train w "$@" --steps=2
before=$dir/begun
sweep resume w "$@" --steps=4 --resume
echo "$runs faults, $failed failed"
[ "$failed" = 0 ]
