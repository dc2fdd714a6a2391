#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pictures of known classes: infer --evaluate, --try-presets, the note on
# pictures that are all of one class, train --evaluate.  Run by make check,
# which sets srcdir and builds wconv, infer and train beside.
. "${srcdir:-.}/tests/conformance/expect.sh"

pictures=$src/samples/digits/images
model=$dir/digits.infer
infer="$here/infer -m $model"
"$here/wconv" "$src/samples/digits/digits.safetensors" -o "$model" \
    --arch="$src/samples/digits/digits.json" >/dev/null || fail wconv

# ---- folders by number: 8 is called 3, so that one of eleven is wrong
for digit in 0 1 2 3 4 5 6 7 8 9; do
    mkdir -p "$dir/data/$digit"
    cp "$pictures/$digit.png" "$dir/data/$digit"
done
cp "$pictures/8.png" "$dir/data/3"
# shellcheck disable=SC2086
{
    expect 0 '^11 pictures, 10 classes$' $infer --evaluate="$dir/data"
    for line in '^top-1  *90.91%  *10$' '^3 three  *\.  *\.  *\.  *1 .* 1    \.$' \
        '^3 three  *2 *50.0%  *8 eight (1)$'; do
        expect 0 "$line" $infer --evaluate="$dir/data" -b 4
    done
    expect 0 '"top1":.0.909090' $infer --evaluate="$dir/data" --json
    expect 0 '"found":.1' $infer --evaluate="$dir/data" --json
    expect 0 '"pictures":.11' $infer --evaluate="$dir/data" --json
}

# ---- folders by label, in parts as train has them
mkdir -p "$dir/named/train/x" "$dir/named/val"
for digit in three seven; do
    mkdir "$dir/named/val/$digit"
done
cp "$pictures/3.png" "$dir/named/val/three"
cp "$pictures/7.png" "$dir/named/val/seven"
# shellcheck disable=SC2086
{
    expect 0 '^top-1  *100.00%  *2$' $infer --evaluate="$dir/named"
    mv "$dir/named/val/seven" "$dir/named/val/SEVEN"
    expect 0 '^top-1  *100.00%  *2$' $infer --evaluate="$dir/named"
    mv "$dir/named/val/SEVEN" "$dir/named/val/cat"
    expect 1 "folder 'cat' is no label" $infer --evaluate="$dir/named"
    mv "$dir/named/val/three" "$dir/named/val/dog"
    expect 1 '2 folders for 10 classes, and none' $infer \
        --evaluate="$dir/named"
    mv "$dir/named/val/dog" "$dir/named/val/12"
    mv "$dir/named/val/cat" "$dir/named/val/7"
    expect 1 'class 12, but the network has 10' $infer --evaluate="$dir/named"
    expect 2 'no folders of pictures' $infer --evaluate="$pictures"
    expect 2 'nowhere' $infer --evaluate="$dir/nowhere"
}
# Ten folders without a known name are the ten classes in their order.
mkdir "$dir/ten"
for digit in 0 1 2 3 4 5 6 7 8 9; do
    mkdir "$dir/ten/n0$digit"
    cp "$pictures/$digit.png" "$dir/ten/n0$digit"
done
# shellcheck disable=SC2086
expect 0 '^top-1  *100.00%  *10$' $infer --evaluate="$dir/ten"

# ---- lists
printf '%s 3\n%s seven\r\n\n%s nine' "$pictures/3.png" "$pictures/7.png" \
    "$pictures/8.png" >"$dir/list"
# shellcheck disable=SC2086
{
    expect 0 '^top-1  *66.67%  *2$' $infer --evaluate="$dir/list"
    expect 0 '^top-1  *66.67%  *2$' $infer --evaluate="@$dir/list"
    printf '%s\n' "$pictures/3.png" >"$dir/list"
    expect 2 'line 1: not a picture and its class' $infer \
        --evaluate="$dir/list"
    printf '%s cow\n' "$pictures/3.png" >"$dir/list"
    expect 2 "line 1: 'cow' is no label" $infer --evaluate="$dir/list"
    # One that cannot be read is passed over, and is in the exit status.
    printf '%s 3\n%s/none.png 4\n' "$pictures/3.png" "$dir" >"$dir/list"
    expect 2 '^top-1  *100.00%  *1$' $infer --evaluate="$dir/list"
    head -c 5000 /dev/zero | tr '\000' a >"$dir/list"
    expect 2 'line 1: longer than a path' $infer --evaluate="$dir/list"
}

# ---- one class for all, and the presets
mkdir "$dir/same"
for copy in 1 2 3 4 5; do
    cp "$pictures/7.png" "$dir/same/$copy.png"
done
# shellcheck disable=SC2086
{
    expect 0 '5 of 5 pictures are shown as class 7 seven' $infer "$dir/same"
    expect 0 seven $infer "$dir/same" -q
    grep -q '5 of 5' "$dir/out" && fail 'a note in spite of -q'
    expect 0 seven $infer "$dir/same" "$pictures/2.png"
    grep -q 'are shown as' "$dir/out" && fail 'two classes are noted as one'
    expect 0 '^as stored: .*gray' $infer --try-presets "$pictures/7.png"
    expect 0 '^  unit  .* 7  seven$' $infer --try-presets "$pictures/7.png"
    [ "$(grep -c '^  [a-z]' "$dir/out")" = 4 ] || fail 'not four presets'
    expect 0 'pictures: .*gray, scale 1/255 (model file)' $infer -v "$pictures/7.png"
}
# shellcheck disable=SC2086
{
    expect 1 'exclude each other' $infer --evaluate="$dir/data" --bench
    expect 1 'not with' $infer --evaluate="$dir/data" -o "$dir/x"
    expect 1 'names its pictures itself' $infer --evaluate="$dir/data" \
        "$pictures/7.png"
    expect 1 'nothing to run on' $infer --try-presets
    expect 1 'for classes, not' $infer --evaluate="$dir/data" --task=image
}

# ---- train: one part alone, or pictures without parts
mkdir -p "$dir/alone/test"
cp -r "$dir/ten/." "$dir/alone/test"
"$here/train" --arch="$src/tests/arch/tiny.json" --data="$dir/ten" -b 5 \
    --steps=3 -o "$dir/t.safetensors" -q
expect 2 'no training pictures' "$here/train" --data="$dir/alone" \
    --arch="$src/tests/arch/tiny.json" --steps=1
for data in "$dir/alone" "$dir/alone/test"; do
    expect 0 '^10 test pictures' "$here/train" --evaluate --data="$data" \
        --init-from="$dir/t.safetensors" -b 5
done
# Both tools count alike.
"$here/wconv" "$dir/t.safetensors" -o "$dir/t.infer" >/dev/null
right=$("$here/train" --evaluate --data="$dir/ten" -b 5 -q \
    --init-from="$dir/t.safetensors" | sed 's/.*accuracy //')
expect 0 "^top-1  *$right " "$here/infer" -m "$dir/t.infer" \
    --evaluate="$dir/ten"

report
