#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Maps of classes against masks: infer --evaluate with a network that calls bright
# pixels class 1, and masks that a second network makes of the same pictures.  Run
# by make check, which sets srcdir and builds wconv and infer beside.
. "${srcdir:-.}/tests/conformance/expect.sh"

pictures=$src/samples/digits/images
# network NAME CHANNELS WEIGHTS BIASES ACTIVATION: a 1x1 convolution; the values are
# bytes in octal.
network() {
    name=$1 bytes=$((4 * $2))
    header="{\"w\":{\"dtype\":\"F32\",\"shape\":[$2,1,1,1],\"data_offsets\":[0,$bytes]},
\"b\":{\"dtype\":\"F32\",\"shape\":[$2],\"data_offsets\":[$bytes,$((2 * bytes))]}}"
    # SC2059: the values are escapes.
    # shellcheck disable=SC2059
    printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s$3$4" "$header" \
        >"$dir/$name.safetensors"
    cat >"$dir/$name.json" <<END
{"infer": 1, "name": "$name", "inputs": [{"name": "image", "dtype": "F32",
  "shape": [-1, 1, -1, -1],
  "preprocess": {"color": "gray", "scale": 0.00392156863}}],
 "nodes": [{"name": "conv", "op": "conv", "in": ["image", "w", "b"],
  "out": ["y"]$5}], "outputs": ["y"],
 "weights": {"w": {"dtype": "F32", "shape": [$2, 1, 1, 1]},
             "b": {"dtype": "F32", "shape": [$2]}}}
END
    expect 0 . "$here/wconv" "$dir/$name.safetensors" --arch="$dir/$name.json" \
        -o "$dir/$name.infer"
}
# Scores 0 and x - 1/2.
network bright 2 '\0\0\0\0\0\0\200\077' '\0\0\0\0\0\0\0\277' ''
# Masks of 0 and 1: 2^20 (x - 1/2) and 2^20 (x - 3/4), cut at 1 of 255.
clip=', "act": {"kind": "clip", "a": 0, "b": 0.00392156863}'
network half 1 '\0\0\200\111' '\0\0\0\311' "$clip"
network most 1 '\0\0\200\111' '\0\0\100\311' "$clip"
infer="$here/infer -m $dir/bright.infer"

for name in half most; do
    mkdir -p "$dir/$name/images"
    cp "$pictures"/[3-7].png "$dir/$name/images"
    expect 0 '112 x 112' "$here/infer" -m "$dir/$name.infer" --task=image \
        -o "$dir/$name/masks/" "$dir/$name/images"
done
# shellcheck disable=SC2086
{
    expect 0 '^mIoU  *100.00%$' $infer --evaluate="$dir/half"
    expect 0 '^5 pictures, 2 classes, 62720 pixels$' $infer -b 3 \
        --evaluate="$dir/half"
    expect 0 '"miou":.1,' $infer --evaluate="$dir/half" --json
    # Every bright pixel of these masks is one of the map's: the IoU of class 1 is
    # the share of the one in the other.
    expect 0 '^pixel accuracy  *9[0-9]\.[0-9]*%$' $infer --evaluate="$dir/most"
    awk '$1 == 1 && $2 ~ /%/ { d = $2 - 100 * $3 / $4; ok = $3 > 0 && $3 < $4 &&
        d < 0.006 && d > -0.006 } END { exit !ok }' "$dir/out" ||
        fail 'the IoU is not the share of the mask in the map'
    # Lists.
    printf '%s/images/%s.png %s/masks/%s.png\n' "$dir/most" 3 "$dir/half" 3 \
        "$dir/most" 4 "$dir/half" 4 >"$dir/list"
    expect 0 '^mIoU  *100.00%$' $infer --evaluate="$dir/list"
    expect 0 '^2 pictures' $infer --evaluate="@$dir/list"
    printf '%s/images/3.png\n' "$dir/most" >>"$dir/list"
    expect 2 'line 3: not a picture and its mask' $infer --evaluate="$dir/list"
    expect 1 'masks are for maps' $infer --evaluate="$dir/half" --task=image
    mv "$dir/half/masks/5.png" "$dir/half/masks/x.png"
    expect 2 'masks/5.png: No such file' $infer --evaluate="$dir/half"
    echo hello >"$dir/half/masks/5.png"
    expect 2 'masks/5.png: a mask is a PNG file' $infer --evaluate="$dir/half"
    # A picture with its own legend is coloured: no mask.
    expect 0 . $infer --task=segment -o "$dir/half/masks/5.png" \
        "$pictures/5.png"
    expect 2 'a mask has a palette or gray' $infer --evaluate="$dir/half"
}

# Depth: bright is far.
expect 0 '^  0 to 0.00392' "$here/infer" -m "$dir/half.infer" --task=depth \
    -o "$dir/depth.png" "$pictures/5.png"
expect 0 '"most":' "$here/infer" -m "$dir/half.infer" --task=depth --json \
    "$pictures/5.png"
report
