#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a person sees, in a headless browser: boxes, a mask, enlarged and restyled
# pictures of networks that others trained, and the pages of wconv inspect and
# kbench on a desktop and on a phone.  For each picture the browser counts the
# pixels that differ from the photograph's.  Screenshots stay in the folder that
# SCREENS names, to be looked at.  Run by make bigcheck; without chromium or
# TEST_DATA it skips.
. "${srcdir:-.}/tests/conformance/expect.sh"

if [ -z "${TEST_DATA:-}" ] || [ ! -d "$TEST_DATA/photos" ]; then
    echo "skipped: TEST_DATA is not set"
    exit 77
fi
command -v chromium >/dev/null || {
    echo "skipped: no chromium"
    exit 77
}
wconv=$here/wconv
infer=$here/infer
photos=$TEST_DATA/photos
coco=--labels=$photos/labels/coco.names
formats=$TEST_DATA/weights-formats
weights=$TEST_DATA/weights
model=$dir/model.infer
shots=${SCREENS:-$dir/shots}
mkdir -p "$shots" || exit 1

# browse WIDTH HEIGHT OPTION... URL
browse() {
    size=$1,$2
    shift 2
    timeout 60 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
        --allow-file-access-from-files --user-data-dir="$dir/browser" \
        --virtual-time-budget=5000 --window-size="$size" "$@" 2>"$dir/browser.log"
}

# shot NAME WIDTH HEIGHT PAGE: a screenshot of that size, with something on it: a
# blank page of a megapixel is a PNG of 5 KB.
shot() {
    count=$((count + 1))
    browse "$2" "$3" --screenshot="$shots/$1.png" "file://$4" >"$dir/out"
    [ -s "$shots/$1.png" ] || {
        fail "$1: no screenshot"
        return
    }
    [ "$(wc -c <"$shots/$1.png")" -gt 12000 ] || fail "$1: the page is blank"
    # Width and height of the PNG, as od prints them.
    size=$(od -An -tu1 -j16 -N8 "$shots/$1.png" |
        awk '{ print $3 * 256 + $4, $7 * 256 + $8 }')
    [ "$size" = "$2 $3" ] || fail "$1: $size pixels, not $2 $3"
}

# picture NAME LOW HIGH PHOTO [OPTION...]: infer's output beside the photograph,
# enlarged to its size, of whose pixels LOW to HIGH per cent differ.
picture() {
    name=$1 low=$2 high=$3 photo=$4
    shift 4
    expect 0 . "$infer" -m "$model" "$photo" -o "$dir/$name.png" "$@"
    cat >"$dir/$name.html" <<END
<!DOCTYPE html><meta charset="utf-8"><title>$name</title>
<style>img { max-width: 49% } body { font: 14px sans-serif; margin: 8px }</style>
<p>$name</p><img id="a" src="file://$photo"> <img id="b" src="$name.png">
<p id="r">nothing</p>
<script>
onload = () => {
    const a = document.getElementById('a'), b = document.getElementById('b');
    const w = b.naturalWidth, h = b.naturalHeight;
    const of = image => {
        const c = Object.assign(document.createElement('canvas'),
                                {width: w, height: h}).getContext('2d');
        c.drawImage(image, 0, 0, w, h);
        return c.getImageData(0, 0, w, h).data;
    };
    const x = of(a), y = of(b);
    let n = 0;
    for (let i = 0; i < x.length; i += 4)
        n += Math.max(Math.abs(x[i] - y[i]), Math.abs(x[i + 1] - y[i + 1]),
                      Math.abs(x[i + 2] - y[i + 2])) > 24;
    document.getElementById('r').textContent =
        w + ' x ' + h + ', changed: ' + (100 * n / (w * h)).toFixed(2) + ' %';
};
</script>
END
    browse 1200 700 --dump-dom "file://$dir/$name.html" >"$dir/dom"
    changed=$(sed -n 's/.*changed: \([0-9.]*\) %.*/\1/p' "$dir/dom")
    count=$((count + 1))
    awk -v c="${changed:--1}" -v l="$low" -v h="$high" \
        'BEGIN { exit !(c >= l && c <= h) }' ||
        fail "$name: ${changed:-no} % of the pixels differ, not $low to $high"
    echo "$name: $(sed -n 's/.*<p id="r">\([^<]*\)<.*/\1/p' "$dir/dom")"
    shot "$name" 1200 700 "$dir/$name.html"
}

# ---- boxes
expect 0 . "$wconv" "$weights/ultraface/version-RFB-320.onnx" -o "$model" \
    --scale=1 --mean=127,127,127 --std=128,128,128
picture ultraface 1 40 "$photos/ultraface-faces-1.jpg"
expect 0 . "$wconv" "$formats/yolo-fastest-darknet/yolo-fastest-1.1.cfg" \
    -o "$model" "$coco"
picture darknet-yolo 1 40 "$photos/darknet-dog.jpg"
expect 0 . "$wconv" "$formats/nanodet-m/nanodet_m.param" -o "$model" "$coco" \
    --scale=1 --color=bgr --mean=103.53,116.28,123.675 \
    --std=57.375,57.12,58.395 --input-shape=1x3x320x320
picture ncnn-nanodet 1 40 "$photos/darknet-person.jpg"
expect 0 . "$wconv" "$formats/fastestdet/FastestDet.onnx" -o "$model" "$coco" \
    --preset=unit --color=bgr --task=detect:fastestdet
picture onnx-fastestdet 1 40 "$photos/darknet-dog.jpg"
expect 0 . "$wconv" "$formats/yunet/yunet_n_320_320.onnx" -o "$model" \
    --preset=raw --color=bgr --resize=letterbox
picture yunet-landmarks 1 40 "$photos/ultraface-faces-1.jpg"
expect 0 . "$wconv" "$weights/retinaface-landmark/mobilenet0.25_Final.pth" \
    --arch="$src/tests/arch/retinaface-mobilenet0.25.json" -o "$model" \
    --task=detect:retinaface:16,32/64,128/256,512
picture pth-retinaface 1 40 "$photos/ultraface-faces-1.jpg"

# ---- pictures
expect 0 . "$wconv" "$formats/fsrcnn-pb/FSRCNN_x2.pb" -o "$model"
for tile in '' --tile; do
    picture "super-resolution$tile" 0 30 "$photos/darknet-dog.jpg" $tile
    grep -q '>1536 x 1152,' "$dir/dom" || fail "super-resolution $tile: its size"
done
expect 0 . "$wconv" "$weights/onnx-winml/candy.onnx" -o "$model" --preset=raw
picture candy 50 100 "$photos/caffe-cat.jpg"

# ---- a mask: a network that calls bright pixels one class and dark ones another
# (tests/conformance/masks.sh): scores 0 and x - 1/2.
cat >"$dir/bright.json" <<'END'
{"infer": 1, "name": "bright", "inputs": [{"name": "image", "dtype": "F32",
  "shape": [-1, 1, -1, -1],
  "preprocess": {"color": "gray", "scale": 0.00392156863}}],
 "nodes": [{"name": "conv", "op": "conv", "in": ["image", "w", "b"],
  "out": ["y"]}], "outputs": ["y"],
 "weights": {"w": {"dtype": "F32", "shape": [2, 1, 1, 1]},
             "b": {"dtype": "F32", "shape": [2]}}}
END
header='{"w":{"dtype":"F32","shape":[2,1,1,1],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}'
{
    # SC2059: the length is an escape.
    # shellcheck disable=SC2059
    printf "\\$(printf %03o ${#header})\0\0\0\0\0\0\0%s" "$header"
    printf '\0\0\0\0\0\0\200\077\0\0\0\0\0\0\0\277'
} >"$dir/bright.safetensors"
expect 0 . "$wconv" "$dir/bright.safetensors" --arch="$dir/bright.json" \
    -o "$model"
picture mask 3 30 "$photos/darknet-eagle.jpg" --task=segment

# ---- classes: MNIST's and SqueezeNet's names of pictures are text
expect 0 . "$wconv" "$weights/onnx-winml/mnist.onnx" -o "$model"
expect 0 '^ *[0-9.]*%  *7' "$infer" -m "$model" "$src/samples/digits/images/7.png"
expect 0 . "$wconv" "$weights/onnx-winml/SqueezeNet_fp16.onnx" -o "$model" \
    --preset=raw-bgr --labels="$photos/labels/synset_words.txt"
expect 0 'hummingbird' "$infer" -m "$model" "$photos/winml-hummingbird.jpg"

# ---- the two pages, on a desktop and on a phone
"$infer" -m "$model" "$photos/winml-hummingbird.jpg" \
    --profile="$dir/profile.json" >/dev/null
"$wconv" inspect "$model" --html="$dir/inspect.html" \
    --profile="$dir/profile.json" || fail 'no page of a model'
"$here/kbench" -q -m lenet5 --backends=onednn,cpu,ref --rounds=3 \
    --time-limit=0.1s --html="$dir/kbench.html" >/dev/null ||
    fail 'no page of kbench'
for page in inspect kbench; do
    shot "$page-desktop" 1300 1600 "$dir/$page.html"
    shot "$page-phone" 420 900 "$dir/$page.html"
    # Nothing is wider than the phone but what scrolls in its own frame.
    sed 's|</body>|<script>onload = () => { document.title = "overflow " + (document.documentElement.scrollWidth - innerWidth); };</script></body>|' \
        "$dir/$page.html" >"$dir/wide.html"
    count=$((count + 1))
    browse 420 900 --dump-dom "file://$dir/wide.html" >"$dir/out"
    over=$(sed -n 's/.*<title>overflow \(-*[0-9]*\)<.*/\1/p' "$dir/out")
    [ "${over:-1}" -le 0 ] || fail "$page: ${over:-?} pixels beyond a phone's edge"
done
report
