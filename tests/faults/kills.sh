#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kills wconv and train (SIGKILL) at random moments.  After each kill the output
# is the file before or the whole new one, and no temporary file is left but one
# that the next writer sweeps; a killed training, killed again and again and
# resumed, ends with the bytes of an uninterrupted one.
#
# KILLS=N runs of each tool (default 12); SEED=N for other moments (default 1).
# The range of the moments follows the length of the runs, so that about two
# thirds are killed on a busy machine too.  Run by make check; the long run by
# `make kills KILLS=5000`.
# srcdir is set by make; the tools lie in the current folder.
. "${srcdir:-.}/tests/conformance/expect.sh"

kills=${KILLS:-12}
seed=${SEED:-1}
command -v timeout >/dev/null || { echo "skipped: no timeout"; exit 77; }
weights=$src/samples/digits/digits.safetensors
arch=--arch=$src/samples/digits/digits.json

# microseconds COMMAND...: how long it runs.
microseconds() {
    begin=$(date +%s%N)
    "$@" >"$dir/out" 2>&1 || fail "$*: $(cat "$dir/out")"
    echo $((($(date +%s%N) - begin) / 1000))
}

# parts N: N random numbers from 0 to 999.
parts() {
    awk -v n="$1" -v seed="$seed" 'BEGIN {
        srand(seed)
        for (i = 0; i < n; i++)
            print int(rand() * 1000)
    }'
}

# moment PART: that part of length, in seconds.
moment() {
    at=$((500 + $1 * length / 1000))
    printf '%d.%06d' $((at / 1000000)) $((at % 1000000))
}

# follow CODE: length after a run that ended so: longer if it was killed.
follow() {
    if [ "$1" = 137 ]; then
        length=$((length + length / 50))
    else
        length=$((length - length / 25))
    fi
}

# kill_at MOMENT COMMAND...: its exit status, 137 if it was killed.  No message
# of the shell about the kill.  --foreground waits for the end of the command;
# without it timeout kills itself too, and the command may end its last system
# call (make a file, rename it) after this function has returned.
# --preserve-status: a command that ends by itself at that moment keeps its 0.
kill_at() {
    (
        timeout --foreground --preserve-status -s KILL "$@" >"$dir/out" 2>&1
        exit $?
    ) 2>/dev/null
}

# left FOLDER: counts temporary files and makes them a minute old, so that the
# next writer sweeps them.
left() {
    for file in "$1"/*.tmp; do
        [ -e "$file" ] || continue
        temporary=$((temporary + 1))
        touch -d '2 minutes ago' "$file"
    done
}

# ---- wconv ----------------------------------------------------------
mkdir "$dir/w"
"$here/wconv" "$src/tests/data/seed_model.keras" -o "$dir/before" -q
"$here/wconv" "$weights" "$arch" -o "$dir/after" -q
cp "$dir/before" "$dir/w/m.infer"
length=$(microseconds "$here/wconv" "$weights" "$arch" -o "$dir/w/m.infer" -q)
died=0 old=0 new=0 temporary=0
for part in $(parts "$kills"); do
    cp "$dir/before" "$dir/w/m.infer"
    moment=$(moment "$part")
    kill_at "$moment" "$here/wconv" "$weights" "$arch" -o "$dir/w/m.infer" -q
    code=$?
    follow $code
    [ $code != 137 ] || died=$((died + 1))
    if cmp -s "$dir/before" "$dir/w/m.infer"; then
        old=$((old + 1))
    elif cmp -s "$dir/after" "$dir/w/m.infer"; then
        new=$((new + 1))
    else
        fail "wconv killed after $moment s: neither the old file nor the new one"
    fi
    left "$dir/w"
done
# What kills left goes with the next file.
"$here/wconv" "$weights" "$arch" -o "$dir/w/m.infer" -q
for file in "$dir"/w/*.tmp; do
    [ ! -e "$file" ] || fail "$file is left"
done
echo "wconv: $kills runs, $died killed, $old old, $new new, $temporary temporary"

# ---- train ----------------------------------------------------------
for part in train test; do
    for digit in 0 1 2 3 4 5 6 7 8 9; do
        mkdir -p "$dir/data/$part/$digit"
        cp "$src/samples/digits/images/$digit.png" "$dir/data/$part/$digit"
    done
done
run() {
    "$here/train" --arch="$src/tests/arch/tiny.json" --data="$dir/data" -b 5 \
        --threads=1 --backend=ref --optimizer=adam --lr=0.01 -q --tune-cache= \
        --steps=24 --snapshot=1 "$@"
}
length=$(microseconds run -o "$dir/whole")
mkdir "$dir/t"
died=0 resumed=0 ended=0 temporary=0
# Each run is killed at the moments until it ends by itself.
for part in $(parts "$kills"); do
    resume=
    [ ! -e "$dir/t/w" ] || { resume=--resume; resumed=$((resumed + 1)); }
    # shellcheck disable=SC2086
    kill_at "$(moment "$part")" "$here/train" --arch="$src/tests/arch/tiny.json" \
        --data="$dir/data" -b 5 --threads=1 --backend=ref --optimizer=adam \
        --lr=0.01 -q --tune-cache= --steps=24 --snapshot=1 -o "$dir/t/w" $resume
    code=$?
    follow $code
    left "$dir/t"
    case $code in
    137) died=$((died + 1)) ;;
    0)
        ended=$((ended + 1))
        cmp -s "$dir/whole" "$dir/t/w" ||
            fail "a training that was killed and resumed has other weights"
        rm -f "$dir/t/w"
        ;;
    *) fail "train exits $code after a kill: $(tail -n 1 "$dir/out")" ;;
    esac
done
if [ -e "$dir/t/w" ]; then
    run -o "$dir/t/w" --resume >"$dir/out" 2>&1 || fail "resuming: $(cat "$dir/out")"
    cmp -s "$dir/whole" "$dir/t/w" || fail "the last training has other weights"
    for file in "$dir"/t/*.tmp; do
        [ ! -e "$file" ] || fail "$file is left"
    done
fi
echo "train: $kills runs, $died killed, $resumed resumed, $ended ended whole," \
    "$temporary temporary"
[ "$failed" = 0 ]
