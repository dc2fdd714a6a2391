#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# train as a user meets it: ten pictures learned by heart, through wconv and
# infer; resuming; bad data; nothing lost by a failure.  Run by make check,
# which sets srcdir and builds train, wconv and infer beside.
. "${srcdir:-.}/tests/conformance/expect.sh"

same() {
    count=$((count + 1))
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

train=$here/train
arch=--arch=$src/tests/arch/tiny.json
pictures=$src/samples/digits/images
data=$dir/data
for part in train test; do
    for digit in 0 1 2 3 4 5 6 7 8 9; do
        mkdir -p "$data/$part/$digit"
        cp "$pictures/$digit.png" "$data/$part/$digit"
    done
done
usual='-b 5 --threads=1 --optimizer=adam --lr=0.01 --seed=3'
# run OUT OPTIONS...: a training run of ten pictures, two batches an epoch.
run() {
    out=$1
    shift
    # shellcheck disable=SC2086
    "$train" "$arch" --data="$data" $usual -o "$out" "$@"
}

# ---- the main job
a=$dir/a.safetensors
expect 0 'accuracy 100' run "$a" --epochs=30 --log="$dir/a.csv" \
    --plot="$dir/a.svg"
expect 0 'stripped.*optimiser state' "$here/wconv" "$a" "$arch" \
    -o "$dir/a.infer" -v
for digit in 0 3 7 9; do
    expect 0 "% *$digit " "$here/infer" -m "$dir/a.infer" -k1 \
        "$pictures/$digit.png"
done
# The checkpoint knows its network: neither --arch nor --labels is needed.
expect 0 'stripped' "$here/wconv" "$a" -o "$dir/own.infer"
expect 3 '^! labels' "$here/wconv" diff "$dir/a.infer" "$dir/own.infer"
[ "$(grep -c '^[!-+]' "$dir/out")" = 1 ] || fail 'more than labels differ'
rm -f "$dir/own.infer"
expect 0 'nodes *7' "$here/wconv" inspect "$a"
expect 0 '10 test pictures.*accuracy 100' "$train" --data="$data" --evaluate \
    --init-from="$a" -b 5
# Ten pictures of a batch of 64 are one batch of ten: the same bits.
for batch in 10 64; do
    expect 0 'step 2' run "$dir/all$batch.safetensors" -b $batch --steps=2 \
        --no-shuffle --log="$dir/all$batch.csv"
done
cut -d, -f1-5 "$dir/all10.csv" >"$dir/all10"
cut -d, -f1-5 "$dir/all64.csv" >"$dir/all64"
same "$dir/all10" "$dir/all64"
# What inspect prints of a checkpoint is an architecture that train takes.
"$here/wconv" inspect "$a" --json >"$dir/printed.json"
expect 0 'step 1' "$train" --arch="$dir/printed.json" --data="$data" -b 5 \
    -o "$dir/printed.safetensors" --steps=1
# Folders named as the labels of the network are those classes, in any order.
sed 's/"outputs"/"labels": ["zero", "one", "two", "three", "four", "five", "six",\
"seven", "eight", "nine"], &/' "$src/tests/arch/tiny.json" >"$dir/labels.json"
i=0
for digit in zero one two three four five six seven eight nine; do
    mkdir -p "$dir/words/$digit"
    cp "$pictures/$i.png" "$dir/words/$digit"
    i=$((i + 1))
done
evaluate_words() {
    "$train" --data="$dir/words" --evaluate --init-from="$a" \
        --arch="$dir/labels.json" -b 5
}
expect 0 '10 test pictures.*accuracy 100' evaluate_words
rm -r "$dir/words/seven"
expect 0 '9 test pictures.*accuracy 100' evaluate_words
mv "$dir/words/nine" "$dir/words/neun"
expect 2 "folder 'neun' is no label" evaluate_words
mkdir -p "$dir/named/train"
cp -r "$data/train/1" "$dir/named/train/hen"
cp -r "$data/train/2" "$dir/named/train/$(printf 'd\377g')"
sed '/fc\./s/\[10/[2/' "$src/tests/arch/tiny.json" >"$dir/two.json"
for steps in 2 5; do
    expect 0 "step $steps" "$train" --data="$dir/named" -b 2 --steps=$steps \
        --arch="$dir/two.json" -o "$dir/whole.safetensors" --seed=3
done
expect 0 'step 2' "$train" --data="$dir/named" -b 2 --steps=2 --seed=3 \
    --arch="$dir/two.json" -o "$dir/part.safetensors"
expect 0 'step 5' "$train" --data="$dir/named" -b 2 --steps=5 --seed=3 \
    --resume -o "$dir/part.safetensors"
same "$dir/whole.safetensors" "$dir/part.safetensors"
expect 0 'labels  *2' "$here/wconv" inspect "$dir/part.safetensors"
expect 0 . "$here/wconv" "$dir/part.safetensors" -o "$dir/named.infer"
expect 0 ' hen ' "$here/infer" -m "$dir/named.infer" "$pictures/1.png"
expect 1 'no network: name one' "$train" --data="$dir/named" -o "$dir/x"
expect 1 'digits.safetensors: does not describe its network' "$train" \
    --data="$dir/named" --resume="$src/samples/digits/digits.safetensors"
rm -r "$dir/named" "$dir/two.json" "$dir/whole.safetensors" \
    "$dir/part.safetensors" "$dir/named.infer"
expect 0 '^60,30,0.01,' tail -n 1 "$dir/a.csv"
expect 0 'polyline' cat "$dir/a.svg"
expect 0 '"val_accuracy":' run "$dir/x.safetensors" --steps=2 --json
expect 0 'largest relative error' run "$dir/x.safetensors" --grad-check
expect 0 'right after' run "$dir/x.safetensors" --overfit-batch
expect 0 'conv1 .*wgrad' run "$dir/x.safetensors" --time-layers
expect 0 'whole step, median' run "$dir/x.safetensors" --time-layers
# ---- approximate products: of each direction by itself
for way in fprop dgrad wgrad; do
    expect 0 "$way .*_cpu_table" run "$dir/x.safetensors" --time-layers \
        --multiplier=mbm-5
    [ $way = fprop ] || expect 1 '^0$' sh -c "'$train' '$arch' --data='$data' \
        -b 5 --time-layers --multiplier-forward=mbm-5 |
        grep -c '$way.*_cpu_table'"
done
expect 1 '^0$' sh -c "'$train' '$arch' --data='$data' -b 5 --time-layers \
    --multiplier=mbm-5 --multiplier-exact=first,fc |
    grep '^conv1\|^fc' | grep -c _cpu_table"
expect 0 '^3$' sh -c "'$train' '$arch' --data='$data' -b 5 --time-layers \
    --multiplier=mbm-5 --multiplier-exact=conv1,last | grep -c _cpu_table"
expect 1 "is named 'conv9'" run "$dir/x.safetensors" --time-layers \
    --multiplier=mbm-5 --multiplier-exact=conv9
expect 1 'needs a --multiplier' run "$dir/x.safetensors" --time-layers \
    --multiplier-exact=first
# Straight through: the bits of an approximate forward pass alone.
expect 0 . run "$dir/p.safetensors" --steps=3 --seed=3 --multiplier=mbm-3
expect 0 . run "$dir/f.safetensors" --steps=3 --seed=3 \
    --multiplier-forward=mbm-3
expect 0 . run "$dir/g.safetensors" --steps=3 --seed=3 --multiplier=mbm-3 \
    --multiplier-gradient=exact
same "$dir/f.safetensors" "$dir/g.safetensors"
expect 0 differ sh -c "cmp -s '$dir/p.safetensors' '$dir/g.safetensors' ||
    echo differ"
expect 1 'needs --multiplier' run "$dir/x.safetensors" --time-layers \
    --multiplier-gradient=exact
# By derivatives: of a forward pass alone, and for the passes without a
# multiplier of their own.
for way in slope derivative; do
    expect 0 . run "$dir/$way.safetensors" --steps=3 --seed=3 \
        --multiplier=mbm-3 --multiplier-gradient=$way
    expect 0 . run "$dir/g.safetensors" --steps=3 --seed=3 \
        --multiplier-forward=mbm-3 --multiplier-gradient=$way
    same "$dir/$way.safetensors" "$dir/g.safetensors"
    expect 0 . run "$dir/g.safetensors" --steps=3 --seed=3 \
        --multiplier=mbm-3 --multiplier-gradient=$way \
        --multiplier-dgrad=exact --multiplier-wgrad=exact
    same "$dir/f.safetensors" "$dir/g.safetensors"
    expect 0 '^6$' sh -c "'$train' '$arch' --data='$data' -b 5 --time-layers \
        --multiplier=mbm-3 --multiplier-gradient=$way \
        --multiplier-exact=conv1 | grep -c _cpu_table"
done
for other in slope p f; do
    expect 0 differ sh -c "cmp -s '$dir/derivative.safetensors' \
        '$dir/$other.safetensors' || echo differ"
done
expect 1 'needs --multiplier' run "$dir/x.safetensors" --time-layers \
    --multiplier-gradient=slope --multiplier-dgrad=mbm-3
rm "$dir/p.safetensors" "$dir/f.safetensors" "$dir/g.safetensors" \
    "$dir/slope.safetensors" "$dir/derivative.safetensors"
# ---- a study: its runs, its files, and what is taken over
printf '{"networks": [{"arch": "%s", "data": "%s"}], "seeds": [1, 2],
  "options": ["-b", "5", "--threads=1", "--epochs=1"],
  "fine_tune": ["--lr=0.001"], "multipliers": ["mbm-5", "mitchell-3"],
  "directions": ["all", "forward", "fine-tune", "inference"]}' \
    "${arch#--arch=}" "$data" >"$dir/study.json"
study="$train --study=$dir/study.json -o $dir/study"
expect 0 'tiny | mitchell-3 | inference | 2 | ' $study
expect 0 '^19$' grep -c , "$dir/study/study.csv"
expect 0 '^18$' grep -c circle "$dir/study/study.svg"
expect 1 '^0$' sh -c "$study 2>&1 | grep -c 'run '"
rm "$dir/study/1-tiny-mbm-5-all-2.json"
expect 0 'run 11 of 18: 1-tiny-mbm-5-all-2' $study
sed -i 's/--epochs=1/--epochs=2/' "$dir/study.json"
expect 0 'run 18 of 18' $study
# a run that was cut off before its figures were kept goes on
cp "$dir/study/study.csv" "$dir/before.csv"
sed -i '/val_/d;/seconds/d;s/\],/]/' "$dir/study/1-tiny-exact-1.json"
expect 0 'run 1 of 18' $study
for csv in "$dir/before.csv" "$dir/study/study.csv"; do
    grep -m 1 '"exact"' "$csv" | cut -d , -f 1-6 >"$csv.exact"
done
same "$dir/before.csv.exact" "$dir/study/study.csv.exact"
# A run that diverged is a result without figures.
sed -i 's/"val_accuracy":.*/"diverged": true,/;/val_loss/d' \
    "$dir/study/1-tiny-mbm-5-all-2.json"
expect 0 'tiny | mbm-5 | all | 1 (1 diverged) | ' $study
expect 0 '^"tiny","mbm-5",all,2,diverged,,' cat "$dir/study/study.csv"
expect 0 '^17$' grep -c circle "$dir/study/study.svg"
sed -i 's/directions": \["all"/directions": ["sideways"/' "$dir/study.json"
expect 2 "direction 'sideways'" $study
echo '{"networks": []}' >"$dir/study.json"
expect 2 "'networks' is missing or empty" $study
printf '{"networks": [{"arch": "%s", "data": "%s"}], "seeds": [1],
  "options": ["-b", "5", "--threads=1", "--steps=1"],
  "multipliers": ["mbm-5"], "directions": ["slope", "derivative"]}' \
    "${arch#--arch=}" "$data" >"$dir/study.json"
expect 0 'tiny | mbm-5 | derivative | 1 | ' "$train" \
    --study="$dir/study.json" -o "$dir/slopes"
expect 0 '"--multiplier-gradient=slope"' cat \
    "$dir/slopes/1-tiny-mbm-5-slope-1.json"
rm -r "$dir/slopes"
echo '{"nets": []}' >"$dir/study.json"
expect 2 "member 'nets' is unknown" $study
expect 1 'needs -o' "$train" --study="$dir/study.json"
expect 1 'grad-check and --multiplier exclude' run "$dir/x.safetensors" \
    --grad-check --multiplier=mbm-5
expect 0 '"layer":.*"conv1"' run "$dir/x.safetensors" --time-layers --json
expect 0 '"step_ms":' run "$dir/x.safetensors" --time-layers --json
expect 0 '"largest_relative_error":' run "$dir/x.safetensors" --grad-check \
    --json
expect 0 '"right":.*5' run "$dir/x.safetensors" --overfit-batch --json
# A few pictures of a network without batch norm: gradients are cut, or five of
# these eight fail.
for seed in 1 2 3 4 5 6 7 8; do
    expect 0 '10 right after' "$train" --arch=lenet5 --data="$data" -b 10 \
        --threads=1 --overfit-batch --seed=$seed
done
# By heart at a fixed rate: the policy's course would end at step 5.
expect 0 'right after' run "$dir/x.safetensors" --overfit-batch --steps=5 \
    --lr-policy=onecycle
rm -f "$dir/x.safetensors"

# ---- files that are one by two names, or that the run reads
for option in --best --log --plot --write-labels; do
    expect 1 'need a file each' run "$dir/y.safetensors" --steps=1 \
        "$option=$dir/./y.safetensors"
done
cp "$src/tests/arch/tiny.json" "$dir/own.json"
cp "$a" "$dir/own.safetensors"
expect 1 'own.json: the run reads this file' run "$dir/own.json" --steps=1 \
    --arch="$dir/own.json"
printf '\000' >"$dir/own.bin"
expect 1 'own.bin: the run reads this file' run "$dir/own.bin" --steps=1 \
    --data="$dir/own.bin"
rm -f "$dir/own.bin"
for option in --log --plot --write-labels; do
    expect 1 'own.safetensors: the run reads this file' run \
        "$dir/y.safetensors" --steps=1 --init-from="$dir/own.safetensors" \
        "$option=$dir/own.safetensors"
done
expect 0 . run "$dir/own.safetensors" --steps=1 --init-from="$dir/own.safetensors"
same "$src/tests/arch/tiny.json" "$dir/own.json"
rm -f "$dir/own.json" "$dir/own.safetensors"
expect 2 'with 10 pictures per batch' run "$dir/y.safetensors" --steps=1 \
    -b 10 --memory=1M --arch=resnet18
absent "$dir/y.safetensors"

# ---- a resumed run is the uninterrupted one, with every rule
for rule in nesterov rmsprop adamw; do
    common="--optimizer=$rule --lr-policy=cosine --weight-decay=0.001 \
        --augment=flip,crop:2,cutout:3,affine --ema=0.9 --clip-grad=1 \
        --label-smoothing=0.1 --warmup=2 --accum=2"
    # shellcheck disable=SC2086
    expect 0 'step 9' run "$dir/whole.safetensors" $common --steps=9
    # Policies follow the length of the whole run: it stops by a signal.
    # shellcheck disable=SC2086
    expect 0 'step 9' run "$dir/part.safetensors" $common --steps=9 \
        --snapshot=4
    # Not through run(): the signal must reach the program itself.
    # shellcheck disable=SC2086
    "$train" "$arch" --data="$data" $usual -o "$dir/cut.safetensors" $common \
        --steps=100000 --lr-policy=fixed --snapshot=1 -q >"$dir/out" 2>&1 &
    pid=$!
    while [ ! -e "$dir/cut.safetensors" ] && kill -0 $pid 2>/dev/null; do
        sleep 0.1
    done
    kill -INT $pid
    wait $pid
    [ $? = 130 ] || fail "$rule: ^C did not end it with 130"
    grep -q 'stopped at step' "$dir/out" || fail "$rule: no word of stopping"
    step=$(sed -n 's/.*stopped at step \([0-9]*\).*/\1/p' "$dir/out")
    to=$((step + 4))
    # shellcheck disable=SC2086
    expect 0 "step $to" run "$dir/cut.safetensors" $common \
        --lr-policy=fixed --steps=$to --resume
    # shellcheck disable=SC2086
    expect 0 "step $to" run "$dir/straight.safetensors" $common \
        --lr-policy=fixed --steps=$to
    same "$dir/cut.safetensors" "$dir/straight.safetensors"
    same "$dir/whole.safetensors" "$dir/part.safetensors"
    for f in whole part cut straight; do
        rm "$dir/$f.safetensors"
    done
done

# ---- the best of a run: what validation found, also of one that is resumed
best() {
    out=$1
    shift
    run "$out" --best="$out.best" --lr=0.05 --optimizer=sgd "$@"
}
expect 0 'step 12' best "$dir/whole.safetensors" --epochs=6 \
    --write-labels="$dir/names"
highest=$(sed -n 's/.*validation.*accuracy \([0-9.]*\)%.*/\1/p' "$dir/out" |
    sort -n | tail -n 1)
expect 0 "accuracy $highest%" run "$dir/x" --evaluate \
    --init-from="$dir/whole.safetensors.best"
expect 0 'step 4' best "$dir/part.safetensors" --epochs=2 \
    --log="$dir/part.csv"
expect 0 'step 12' best "$dir/part.safetensors" --epochs=6 --resume \
    --log="$dir/part.csv"
expect 0 '^12,6,' tail -n 1 "$dir/part.csv"
[ "$(grep -c '^[0-9]' "$dir/part.csv")" = 12 ] || fail 'rows of the log are lost'
count=$((count + 1))
tail -n +2 "$dir/part.csv" | cut -d, -f9 | sort -g -c 2>/dev/null ||
    fail 'the seconds of the log begin anew'
same "$dir/whole.safetensors" "$dir/part.safetensors"
same "$dir/whole.safetensors.best" "$dir/part.safetensors.best"
expect 0 '^9$' tail -n 1 "$dir/names"
rm "$dir"/whole.* "$dir"/part.* "$dir/names"

# ---- and where an epoch does not end with a step: of two batches an epoch,
# a step takes three
common='-b 4 --accum=3 --augment=flip,crop:2'
# shellcheck disable=SC2086
expect 0 'step 5' run "$dir/whole.safetensors" $common --steps=5
# shellcheck disable=SC2086
expect 0 'step 2' run "$dir/part.safetensors" $common --steps=2
# shellcheck disable=SC2086
expect 0 'step 5' run "$dir/part.safetensors" $common --steps=5 --resume
same "$dir/whole.safetensors" "$dir/part.safetensors"
rm "$dir/whole.safetensors" "$dir/part.safetensors"

# ---- without -o nothing is kept but the log; a checkpoint elsewhere is named
expect 0 'no -o' "$train" "$arch" --data="$data" -b 5 --steps=2 \
    --log="$dir/alone.csv" --plot="$dir/alone.svg"
expect 0 '^2,1,' cat "$dir/alone.csv"
expect 0 'polyline' cat "$dir/alone.svg"
# shellcheck disable=SC2086
expect 0 "^$a: step 60" "$train" "$arch" --data="$data" $usual --resume="$a" \
    --epochs=31

# ---- measured kernels: the cache gives the same again, and so does the
# checkpoint where the cache is gone; a damaged cache is ignored with a word
cache=$dir/tuning.json
measure="--tune=exhaustive --tune-cache=$cache -v"
# shellcheck disable=SC2086
for f in whole again; do
    expect 0 'step 6' run "$dir/$f.safetensors" $measure --steps=6
done
grep -q '[1-9][0-9]* problems measured' "$dir/out" && fail 'measured twice'
same "$dir/whole.safetensors" "$dir/again.safetensors"
# shellcheck disable=SC2086
expect 0 'step 3' run "$dir/cut.safetensors" $measure --steps=3
rm -f "$cache"
# shellcheck disable=SC2086
expect 0 'step 6' run "$dir/cut.safetensors" $measure --steps=6 --resume
grep -q '[1-9][0-9]* problems measured' "$dir/out" && fail 'measured anew'
same "$dir/whole.safetensors" "$dir/cut.safetensors"
printf '{"libinfer_tuning": 2, "dev' >"$cache"
# shellcheck disable=SC2086
expect 0 'tuning cache ignored' run "$dir/again.safetensors" $measure --steps=1
# shellcheck disable=SC2086
expect 0 'step 6' run "$dir/again.safetensors" $measure --deterministic \
    --tune=off --steps=6
expect 1 'on, off or exhaustive' run "$dir/again.safetensors" --tune=often
for f in whole again cut; do
    rm "$dir/$f.safetensors"
done

# ---- starting from weights
expect 0 '10 test pictures.*accuracy 100' run "$dir/b.safetensors" \
    --evaluate --init-from="$a"
absent "$dir/b.safetensors"
# What was learned is there from the first step on.
expect 0 'validation loss.*accuracy 100' run "$dir/b.safetensors" --steps=2 \
    --lr=0.0001 --init-from="$a" --freeze='^conv|^bn'
expect 1 'matches none' run "$dir/c.safetensors" --freeze='nowhere'
expect 2 'nothing to train' run "$dir/c.safetensors" --freeze='.'
expect 2 'none of its weights' run "$dir/c.safetensors" \
    --init-from="$src/samples/digits/digits.safetensors"
absent "$dir/c.safetensors"
# A classifier of other classes starts anew in an architecture file too.
mkdir -p "$dir/three/train"
cp -r "$data/train/1" "$data/train/2" "$data/train/3" "$dir/three/train"
sed '/fc\./s/\[10/[3/' "$src/tests/arch/tiny.json" >"$dir/three.json"
expect 0 '7 parameters taken, 2 start anew' "$train" --data="$dir/three" \
    --arch="$dir/three.json" --init-from="$a" --steps=1 -b 3
expect 2 '2 of the network.s parameters are not in it' "$train" \
    --data="$dir/three" --val="$dir/three" --arch="$dir/three.json" \
    --init-from="$a" --evaluate
# A gradient check is one of the weights that are given.
expect 0 'largest relative' run "$dir/c.safetensors" --grad-check
sed 's/.*error//' "$dir/out" >"$dir/random"
expect 0 'largest relative' run "$dir/c.safetensors" --grad-check \
    --init-from="$a"
sed 's/.*error//' "$dir/out" | cmp -s - "$dir/random" &&
    fail 'the weights of --init-from were not checked'

# ---- checkpoints that do not fit, and places that cannot be written
cp "$a" "$dir/good"
expect 1 'begun with' run "$a" --resume --seed=4
expect 2 'train: [^:]*/none.st: No such file' "$train" --data="$data" \
    --resume="$dir/none.st" -o "$dir/none.st"
"$here/wconv" -q "$a" -o "$dir/a.infer"
expect 2 'a.infer: holds weights but no training state' "$train" --data="$data" \
    --resume="$dir/a.infer" -o "$dir/none.st"
rm "$dir/a.infer"
expect 1 'begun with batch 5' run "$a" --resume -b 2
expect 1 'begun with --optimizer=adam' run "$a" --resume --optimizer=sgd
expect 2 "'train.weight.conv1.weight' is missing, and [1-9].* --ema" run "$a" \
    --resume --ema=0.9
[ "$(grep -c missing "$dir/out")" = 1 ] || fail 'missing tensors fill a page'
expect 2 'holds [0-9]* tensors.*--freeze' run "$a" --resume --freeze='^fc'
expect 0 'complete at step 60' run "$a" --resume --epochs=30
same "$a" "$dir/good"
expect 0 'complete at step 60' run "$dir/copy" --resume="$a" --epochs=30
same "$dir/copy" "$a"
rm "$dir/copy"
head -c 3000 "$a" >"$dir/short.safetensors"
expect 2 'short.safetensors' run "$a" --resume="$dir/short.safetensors"
# One changed bit in the middle of the tensors.
{
    head -c 30000 "$a"
    printf 'x'
    tail -c +30002 "$a"
} >"$dir/bit.safetensors"
expect 2 'checksum' run "$a" --resume="$dir/bit.safetensors" --epochs=40
# Another step in the description.
LC_ALL=C sed 's/"step\(..\):\(..\)60/"step\1:\261/' "$a" >"$dir/bit.safetensors"
expect 2 'checksum of its header' run "$a" --epochs=40 \
    --resume="$dir/bit.safetensors"
# One changed bit anywhere in the header: every 29th byte of it.
header=$(od -An -N4 -tu4 "$a" | tr -d ' ')
at=8
while [ $at -lt $((header + 8)) ]; do
    byte=$(od -An -j$at -N1 -tu1 "$a" | tr -d ' ')
    {
        head -c $at "$a"
        # shellcheck disable=SC2059
        printf "\\$(printf %o $((byte ^ (1 << at % 7))))"
        tail -c +$((at + 2)) "$a"
    } >"$dir/bit.safetensors"
    expect 2 'bit.safetensors' run "$a" --epochs=40 \
        --resume="$dir/bit.safetensors"
    at=$((at + 29))
done
"$here/wconv" "$a" "$arch" -o "$dir/bare.infer" >/dev/null
expect 2 'no training state' run "$a" --resume="$dir/bare.infer"
expect 2 '/dev/full\|regular' run /dev/full --steps=1
expect 2 "$dir/nowhere" run "$dir/nowhere/x" --steps=1
# Where a file cannot be written is said before anything is computed.
for option in -o --log --plot; do
    expect 2 "$dir/nowhere/y: cannot create" run "$dir/x" "$option" \
        "$dir/nowhere/y" --steps=1
    grep -q 'epoch' "$dir/out" && fail "$option: noticed late"
    absent "$dir/x"
done
same "$a" "$dir/good"
# A disk that fills up: files may grow to 8 blocks of 512 bytes.
(
    ulimit -f 8
    trap '' XFSZ
    run "$a" --resume --epochs=40
) >"$dir/out" 2>&1 && fail 'a full disk went unnoticed'
grep -q "$a" "$dir/out" || fail 'a full disk was not named'
same "$a" "$dir/good"

# ---- names that a checkpoint cannot hold, and a path that is no UTF-8
odd=$dir/$(printf 'a\377"')
mkdir "$odd"
cp "$src/tests/arch/tiny.json" "$odd"
expect 0 'step 2' run "$dir/odd.safetensors" --arch="$odd/tiny.json" --steps=2
expect 0 'step 3' run "$dir/odd.safetensors" --arch="$odd/tiny.json" --steps=3 \
    --resume
for name in train.state __metadata__; do
    sed "s/conv1.weight/$name/" "$src/tests/arch/tiny.json" >"$dir/odd.json"
    expect 2 "cannot hold a weight named '$name'" run "$dir/x" --steps=1 \
        --arch="$dir/odd.json"
    grep -q 'epoch' "$dir/out" && fail "$name: noticed late"
    absent "$dir/x"
done

# ---- divergence: named, and the checkpoint and the log are kept
expect 3 'Lower --lr.*unharmed' run "$a" --resume --epochs=99 --lr=1e6 \
    --optimizer=adam --snapshot=1000 --epsilon=0
same "$a" "$dir/good"
expect 3 "step 60 in $a is unharmed" run "$dir/x" --resume="$a" --epochs=99 \
    --lr=1e6 --snapshot=1000 --epsilon=0 --log="$dir/x.csv"
absent "$dir/x"
expect 0 '^61,' cat "$dir/x.csv"

expect 3 'not finite.*loss-scale may be too large' run "$dir/x" \
    --precision=fp16 --loss-scale=16777216 --steps=3
absent "$dir/x"

# ---- bad data
expect 2 'No such file' "$train" "$arch" --data="$dir/nothing" -o "$dir/x"
mkdir "$dir/idx" "$dir/ten" "$dir/cifar"
expect 2 'holds no training pictures' "$train" "$arch" --data="$dir/idx" \
    -o "$dir/x"
# Three pictures of 14 x 14 and their labels.
{
    printf '\0\0\010\003\0\0\0\003\0\0\0\016\0\0\0\016'
    head -c 588 /dev/zero
} >"$dir/idx/train-images-idx3-ubyte"
expect 2 'not beside it' "$train" "$arch" --data="$dir/idx" -o "$dir/x"
printf '\0\0\010\001\0\0\0\003\001\002\003' >"$dir/idx/train-labels-idx1-ubyte"
expect 0 'reach 3, but only 3 classes' "$train" "$arch" --data="$dir/idx" \
    --steps=1 -b 3
printf '\0\0\010\001\0\0\0\002\001\002' >"$dir/idx/train-labels-idx1-ubyte"
expect 2 '2 labels.*3 pictures' "$train" "$arch" --data="$dir/idx" -o "$dir/x"
printf '\0\0\010\001\0\0\0\003\001\002' >"$dir/idx/train-labels-idx1-ubyte"
expect 2 'cut off' "$train" "$arch" --data="$dir/idx" -o "$dir/x"
printf '\0\0\010\001\0\0\0\003\001\002\013' >"$dir/idx/train-labels-idx1-ubyte"
expect 2 '12 classes.*scores 10' "$train" "$arch" --data="$dir/idx" -o "$dir/x"
gzip -c "$dir/idx/train-images-idx3-ubyte" | head -c 30 \
    >"$dir/idx/train-images-idx3-ubyte.gz"
rm "$dir/idx/train-images-idx3-ubyte"
expect 2 'cut off' "$train" "$arch" --data="$dir/idx" -o "$dir/x"
# A header of 604 bytes before 64 MiB: no more is read than it tells of.
{
    printf '\0\0\010\003\0\0\0\003\0\0\0\016\0\0\0\016'
    head -c 67108864 /dev/zero
} | gzip >"$dir/idx/train-images-idx3-ubyte.gz"
expect 2 'more than the 604 bytes' "$train" "$arch" --data="$dir/idx" -o "$dir/x"
printf '\0\0\010\003\377\377\377\377\377\377\377\377\377\377\377\377' \
    >"$dir/idx/train-images-idx3-ubyte"
expect 2 '4294967295 pictures.*damaged' "$train" "$arch" --data="$dir/idx" \
    -o "$dir/x"
head -c 3000 /dev/zero >"$dir/cifar/data_batch_1.bin"
expect 2 'no whole number' "$train" --arch=resnet20-cifar \
    --data="$dir/cifar" -o "$dir/x"
head -c 3073 /dev/zero >"$dir/cifar/data_batch_1.bin"
cp "$dir/cifar/data_batch_1.bin" "$dir/cifar/data_batch_2.bin"
gzip -k "$dir/cifar/data_batch_1.bin"
expect 0 '^2 training' "$train" --arch=resnet20-cifar --data="$dir/cifar" \
    --steps=1 -v
grep -q '2 pictures do not fill a batch of 64' "$dir/out" ||
    fail 'a batch that is not filled went unsaid'
expect 2 '3x32x32.*1x14x14' "$train" "$arch" --data="$dir/cifar" -o "$dir/x"
mkdir -p "$dir/ten/train/cat" "$dir/none/train"
cp "$pictures/1.png" "$dir/none/train"
expect 2 'train: holds no folders' "$train" "$arch" --data="$dir/none" \
    -o "$dir/x"
expect 2 'without pictures' "$train" "$arch" --data="$dir/ten" -o "$dir/x"
printf 'no picture' >"$dir/ten/train/cat/1.png"
expect 2 'of one class, cat' "$train" "$arch" --data="$dir/ten" -o "$dir/x"
ln -s .. "$dir/ten/train/cat/loop"
expect 2 'nested more than' "$train" "$arch" --data="$dir/ten" -o "$dir/x"
rm "$dir/ten/train/cat/loop"
mkdir "$dir/ten/train/dog"
cp "$pictures/1.png" "$dir/ten/train/dog"
expect 2 '2 classes.*scores 10' "$train" "$arch" --data="$dir/ten" -o "$dir/x"
# Test pictures that are broken are no lack of them, and training pictures are
# never what validation reads unasked.
mkdir "$dir/broken"
printf '\0\0\010\003\0\0\0\003\0\0\0\016\0\0\0\016' \
    >"$dir/broken/t10k-images-idx3-ubyte"
printf '\0\0\010\001\0\0\0\003\001\002\003' \
    >"$dir/broken/t10k-labels-idx1-ubyte"
expect 2 't10k-images.*cut off' "$train" "$arch" --data="$data" \
    --val="$dir/broken" -o "$dir/x"
cp "$dir/broken/t10k-labels-idx1-ubyte" "$data"
expect 2 't10k-images-idx3-ubyte is not beside it' run "$dir/x" --steps=1
rm "$data/t10k-labels-idx1-ubyte"
expect 0 'no validation' run "$dir/alone.safetensors" --steps=1 \
    --data="$data/train"
grep -q 'validation loss' "$dir/out" && fail 'training pictures validated'
expect 0 'validation loss' run "$dir/alone.safetensors" --steps=1 \
    --val="$data/test"
absent "$dir/x"

# ---- usage
expect 1 'no network' "$train" --data="$data"
expect 1 'no pictures' "$train" "$arch"
expect 1 "did you mean '--epochs'" "$train" --epocs=3
expect 1 'optimizer' "$train" "$arch" --data="$data" --optimizer=magic
expect 1 'lr takes' "$train" "$arch" --data="$data" --lr=nan
expect 1 'augment' "$train" "$arch" --data="$data" --augment=fly
expect 1 'is not an option' "$train" "$arch" --data="$data" there
expect 1 'neither a built-in name' "$train" --arch=lenet55 --data="$data"
expect 4 'cuda' run "$dir/x" --device=cuda:99
expect 4 'cuda: not usable on device cpu' run "$dir/x" --backend=cuda
expect 1 'goes with --device=cuda' run "$dir/x" --gpus=2 --device=cpu
expect 1 'shared equally by 2 GPUs' run "$dir/x" --gpus=2
expect 4 'GPUs were asked for\|no NVIDIA driver\|one GPU at a time' \
    run "$dir/x" --gpus=64 -b 64
expect 1 'leave --gpus out' env OMPI_COMM_WORLD_SIZE=2 "$train" "$arch" \
    --data="$data" --gpus=2
expect 1 'takes one GPU' run "$dir/x" --gpus=2 --grad-check
expect 2 'memory=9: with .* pictures per batch the network takes .* at least' \
    run "$dir/x" --memory=9
absent "$dir/x"
expect 1 'memory and --grad-check' run "$dir/x" --grad-check --memory=1G
# What contradicts itself, or would go unread.
expect 1 'steps and --epochs exclude' run "$dir/x" --steps=1 --epochs=1
expect 1 'evaluate exclude each other' run "$dir/x" --grad-check --time-layers
expect 1 'resume and --grad-check' run "$a" --grad-check --resume
expect 1 'resume and --evaluate' run "$a" --evaluate --resume
expect 1 'evaluate of no weights' run "$dir/x" --evaluate
expect 1 'best needs test pictures' run "$dir/x" --data="$data/train" \
    --best="$dir/best"
expect 1 'write-labels is for folders' "$train" --arch=resnet20-cifar \
    --data="$dir/cifar" --write-labels="$dir/names" --steps=1
absent "$dir/names"
expect 1 'a file each' run "$dir/x" --steps=1 --log="$dir/x"
expect 1 'lr-step goes with --lr-policy=step' run "$dir/x" --lr-step=1e,2e
expect 1 'step needs --lr-step' run "$dir/x" --lr-policy=step
expect 1 'lr-step takes' run "$dir/x" --lr-policy=step --lr-step=0
expect 1 'gamma goes with' run "$dir/x" --gamma=0.1 --lr-policy=cosine
expect 1 'beta2 goes with' run "$dir/x" --optimizer=momentum --beta2=0.9
expect 1 'nesterov needs' run "$dir/x" --optimizer=nesterov --momentum=0
expect 1 'snapshot takes steps' run "$dir/x" --snapshot=0.5
expect 1 'epochs takes a number' run "$dir/x" --epochs=0
expect 0 'warm-up of 9 steps' run "$dir/x" --warmup=9 --steps=2
expect 0 'x: is there already and will be replaced' run "$dir/x" --steps=2
expect 1 '^0$' sh -c "'$train' '$arch' --data='$data' -o '$dir/x' --steps=3 \
    --resume 2>&1 | grep -c replaced"
rm "$dir/x"
absent "$dir/x"
expect 0 'resnet50-mnist' "$train" --list-archs
expect 0 'usage: train' "$train" --help

report
