#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Detectors and networks that make pictures, trained by others, on photographs:
# what must be found is found, where it is.  Run by make check.
. "${srcdir:-.}/tests/conformance/expect.sh"

if [ -z "${TEST_DATA:-}" ] || [ ! -d "$TEST_DATA/photos" ]; then
    echo "skipped: TEST_DATA is not set"
    exit 77
fi
wconv=$here/wconv
infer=$here/infer
photos=$TEST_DATA/photos
coco=--labels=$photos/labels/coco.names
formats=$TEST_DATA/weights-formats
model=$dir/model.infer

# sees PATTERN PHOTO [OPTION...]: a line of the boxes that are found
sees() {
    pattern=$1 photo=$2
    shift 2
    expect 0 "$pattern" "$infer" -m "$model" "$@" "$photos/$photo"
}

# Darknet: the anchors come from the .cfg.
expect 0 . "$wconv" "$formats/yolo-fastest-darknet/yolo-fastest-1.1.cfg" \
    -o "$model" "$coco"
sees ' 9[0-9]\.[0-9]*%  *0  person  (1[6-9][0-9], ' darknet-person.jpg
sees ' dog  (\(6\|7\)[0-9], ' darknet-person.jpg
sees ' horse  (' darknet-horses.jpg
sees ' car  (4[45][0-9], 7[0-9]) to (6[89][0-9], 1[78][0-9])' darknet-dog.jpg
sees ' dog  (1[0-9]*, ' darknet-dog.jpg
sees '"label":.*"person"' darknet-person.jpg --json

# A program's boxes are infer's.
"$infer" -m "$model" "$photos/darknet-dog.jpg" |
    sed -n 's/^ *\([0-9.]*\)% .*(\(.*\), \(.*\)) to (\(.*\), \(.*\))$/\1 \2 \3 \4 \5/p' \
        >"$dir/shown"
"$here/samples/detect" "$model" "$photos/darknet-dog.jpg" |
    awk '{ printf "%.2f %.0f %.0f %.0f %.0f\n", 100 * $3, $4, $5, $6, $7 }' \
        >"$dir/program"
count=$((count + 1))
[ -s "$dir/shown" ] && cmp -s "$dir/shown" "$dir/program" ||
    fail "samples/detect finds other boxes than infer"

# Sides of anchors: RetinaFace's own, and half of them, which halve each box
# about its anchor.
retinaface() {
    expect 0 . "$wconv" \
        "$TEST_DATA/weights/retinaface-landmark/mobilenet0.25_Final.pth" \
        --arch="$src/tests/arch/retinaface-mobilenet0.25.json" -o "$model" \
        --task=detect:retinaface:"$1"
}
retinaface 16,32/64,128/256,512
sees ' 99.9.% .* (31[789], \(99\|10[01]\)) to (\(359\|36[01]\), \(14[89]\|150\))$' \
    ultraface-faces-1.jpg
retinaface 8,16/32,64/128,256
sees ' 99.9.% .* (32[234], 10[789]) to (34[345], 13[123])$' ultraface-faces-1.jpg
expect 0 '^\(4[5-9]\|[56][0-9]\|7[0-9]\)$' sh -c "'$infer' -m '$model' --json \
    '$photos/ultraface-faces-1.jpg' | grep -c '\"points\":'"

# Average precision: COCO's ids have gaps, and the lists of names differ.  The
# boxes of one picture as its annotations are found again, all of them.
{
    printf '{"info": "]}\\"", "images": [{"id": 9, "file_name":'
    printf ' "darknet-person.jpg"}], "categories": ['
    id=0
    while IFS= read -r name; do
        id=$((id + 2))
        printf '{"id": %d, "name": "%s"},' "$id" "$name"
    done <"$photos/labels/coco.names"
    printf '{"id": 999, "name": "nothing"}], "annotations": '
} >"$dir/head.json"
printf '%s' "$(cat "$dir/head.json")[]}" >"$dir/none.json"
expect 0 '^AP  *IoU 0.50:0.95  *-$' "$infer" -m "$model" "$photos" \
    --evaluate="$dir/none.json" --coco="$dir/boxes.json" --score=0.3
[ "$(grep -c '"image_id":9,' "$dir/boxes.json")" -ge 3 ] ||
    fail 'fewer than three boxes as results'
grep -q '"category_id":2,' "$dir/boxes.json" || fail 'no person as a result'
printf '%s' "$(cat "$dir/head.json" "$dir/boxes.json")}" >"$dir/own.json"
expect 0 '^AP  *IoU 0.50:0.95  *100.00%$' "$infer" -m "$model" "$photos" \
    --evaluate="$dir/own.json"
expect 0 '"ap_small":.null' "$infer" -m "$model" "$photos" \
    --evaluate="$dir/none.json" --json
expect 1 'annotations are for boxes' "$infer" -m "$model" "$photos" \
    --evaluate="$dir/own.json" --task=classify
expect 1 'takes one folder' "$infer" -m "$model" "$photos" "$dir" \
    --evaluate="$dir/own.json"
expect 1 '^infer: --coco goes with' "$infer" -m "$model" "$photos" \
    --coco="$dir/x.json"
echo '{"images": [{"id": 1, "file_name": "../x"}], "categories":
    [{"id": 1, "name": "a"}], "annotations": []}' >"$dir/bad.json"
expect 2 "bad.json: file_name '../x' is no path below" "$infer" -m "$model" \
    --evaluate="$dir/bad.json"
echo '{"images": [{"id": 1}]}' >"$dir/bad.json"
expect 2 'bad.json: "images", element 0: ' "$infer" -m "$model" \
    --evaluate="$dir/bad.json"
echo '{"images": [{"id": 1}' >"$dir/bad.json"
expect 2 'bad.json: "images"' "$infer" -m "$model" --evaluate="$dir/bad.json"

# NanoDet: distances of each grid.
expect 0 . "$wconv" "$formats/nanodet-m/nanodet_m.param" -o "$model" "$coco" \
    --scale=1 --color=bgr --mean=103.53,116.28,123.675 \
    --std=57.375,57.12,58.395 --input-shape=1x3x320x320
sees ' person  (1[89][0-9], 10[0-9]) to (27[0-9], 3[56][0-9])' darknet-person.jpg
sees ' dog  (7[0-9], 26[0-9]) to (20[0-9], 35[0-9])' darknet-person.jpg

# FastestDet: named, since its shape is that of a coarse map.
expect 0 . "$wconv" "$formats/fastestdet/FastestDet.onnx" -o "$model" "$coco" \
    --preset=unit --color=bgr --task=detect:fastestdet
sees ' dog  (1[0-9][0-9], 2[0-9][0-9])' darknet-dog.jpg
sees ' bicycle  (' darknet-dog.jpg

# A file that states no preprocessing, and finds nothing with what is assumed.
expect 0 'assumed' "$wconv" "$formats/yunet/yunet_n_320_320.onnx" -o "$model"
sees 'note: there are no boxes' ultraface-faces-1.jpg
sees '^  as stored  *0 boxes' ultraface-faces-1.jpg --try-presets
sees '^  caffe  *[1-9][0-9] boxes, best [0-9.]*%  0' ultraface-faces-1.jpg \
    --try-presets

# The YuNet of 2021 has priors and no batch.
expect 0 'detect:yunet2021' "$wconv" \
    "$formats/yunet/face_detection_yunet_120x160.onnx" -o "$model" --preset=raw-bgr
sees '^ *9[0-9]\.[0-9]*% ' ultraface-faces-1.jpg

# Faces: YuNet with landmarks, UltraFace's boxes and scores.
expect 0 . "$wconv" "$formats/yunet/yunet_n_320_320.onnx" -o "$model" \
    --preset=raw --color=bgr --resize=letterbox
sees '"points":' ultraface-faces-1.jpg --json
expect 0 . "$wconv" "$TEST_DATA/weights/ultraface/version-RFB-320.onnx" \
    -o "$model" --scale=1 --mean=127,127,127 --std=128,128,128
sees '  99\.[0-9]*% ' ultraface-faces-1.jpg
faces=$("$infer" -m "$model" "$photos/ultraface-faces-1.jpg" | grep -c '%')
[ "$faces" -ge 40 ] || fail "$faces faces of 51 were found"

# Pictures: style transfer, and super-resolution of luminance.
expect 0 . "$wconv" "$TEST_DATA/weights/onnx-winml/candy.onnx" -o "$model"
sees 'note: most values' caffe-cat.jpg -o "$dir/out.infer.png"
sees '^  raw  *[0-9]\.[0-9]*% of the values' caffe-cat.jpg --try-presets
expect 0 . "$wconv" "$TEST_DATA/weights/onnx-winml/candy.onnx" -o "$model" \
    --preset=raw
sees '768 x 576' darknet-dog.jpg -o "$dir/out.infer.png"
expect 0 . "$wconv" "$formats/fsrcnn-pb/FSRCNN_x2.pb" -o "$model"
sees '512 x 512' onnx-tutorials-super-res-input.jpg -o "$dir/out.infer.png"

# Tiles: where a quarter of the overlap is farther than the windows reach the
# result is that of the whole picture; without overlap it is not.
sees '1536 x 1152' darknet-dog.jpg -o "$dir/whole.png"
for tile in 128 100:40 5000; do
    sees '1536 x 1152' darknet-dog.jpg -b 3 --tile=$tile -o "$dir/tiles.png"
    cmp -s "$dir/whole.png" "$dir/tiles.png" || fail "--tile=$tile: seams"
done
sees '1536 x 1152' darknet-dog.jpg --tile=64:0 -o "$dir/tiles.png"
cmp -s "$dir/whole.png" "$dir/tiles.png" && fail "--tile=64:0: no seams"
sees 'tiles.png' caffe-cat_gray.jpg --tile --json -o "$dir/tiles.png"
expect 1 'goes with pictures and --output' "$infer" -m "$model" --tile \
    "$photos/darknet-dog.jpg"
for tile in 7 x 64:33 64:; do
    expect 1 'takes N or N:OVERLAP' "$infer" -m "$model" --tile=$tile \
        -o "$dir/tiles.png" "$photos/darknet-dog.jpg"
done
expect 2 'nothing.jpg' "$infer" -m "$model" --tile -o "$dir/tiles.png" \
    "$dir/nothing.jpg"
report
