#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kills train at random moments, TIMES times (200), and resumes it each time:
# the checkpoint is never broken, and the weights at the end are those of a run
# that nobody disturbed.  Run by make bigcheck.
set -u
src=${srcdir:-.}
train=$(pwd)/train
times=${TIMES:-200}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
data=$dir/data
for digit in 0 1 2 3 4 5 6 7 8 9; do
    mkdir -p "$data/train/$digit"
    cp "$src/samples/digits/images/$digit.png" "$data/train/$digit"
done
# run OUT STEPS OPTIONS...
run() {
    out=$1 steps=$2
    shift 2
    exec "$train" --arch="$src/tests/arch/tiny.json" --data="$data" -b 5 \
        --threads=1 --optimizer=adam --lr=0.001 --augment=flip,crop:1 \
        --ema=0.99 --snapshot=1 -q --steps="$steps" -o "$out" "$@"
}
# Seconds to live, up to half a one, that nobody can foresee.
moment() {
    od -An -N2 -tu2 /dev/urandom | awk '{ printf "%.3f", $1 % 500 / 1000 }'
}

(run "$dir/a.safetensors" 1) || exit 1
killed=0
while [ "$killed" -lt "$times" ]; do
    (run "$dir/a.safetensors" 16000000 --resume) 2>"$dir/err" &
    pid=$!
    sleep "$(moment)"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    if [ -s "$dir/err" ]; then
        echo "FAILED after $killed kills:"
        cat "$dir/err"
        exit 1
    fi
    killed=$((killed + 1))
done
step=$(grep -a -o 'step\\":\\"[0-9]*' "$dir/a.safetensors" | tr -dc 0-9)
to=$((step + 5))
(run "$dir/a.safetensors" $to --resume) || exit 1
(run "$dir/b.safetensors" $to) || exit 1
if ! cmp "$dir/a.safetensors" "$dir/b.safetensors"; then
    echo "FAILED: other weights after $killed kills and $to steps"
    exit 1
fi
echo "killed $killed times on the way to step $to; the weights are equal"
