#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wconv --quantize as a user meets it: the report, budgets of accuracy, classes
# from folders and arrays, and samples that are no good: named, and nothing
# written.  Run by make check.
. "${srcdir:-.}/tests/conformance/expect.sh"

wconv=$here/wconv
infer=$here/infer
pictures=$src/samples/digits/images

# quantize CODE PATTERN ARGUMENT...
quantize() {
    code=$1 pattern=$2
    shift 2
    expect "$code" "$pattern" "$wconv" "$src/samples/digits/digits.safetensors" \
        --arch="$src/samples/digits/digits.json" "$@"
}

# refuse CODE PATTERN ARGUMENT...: nor is a file written.
refuse() {
    code=$1 pattern=$2
    shift 2
    rm -f "$dir/x"
    quantize "$code" "$pattern" -o "$dir/x" "$@"
    absent "$dir/x"
}

# ---- methods: each has its own limits
for method in max percentile mse entropy; do
    quantize 0 'top class equal in [34] of 4' -o "$dir/$method.infer" \
        --quantize=int8 --calibrate="$pictures:4" --calib=$method
done
cmp -s "$dir/max.infer" "$dir/entropy.infer" && fail "entropy is max"
refuse 1 'entropy' --quantize=int8 --calibrate="$pictures" --calib=kl

"$wconv" "$src/samples/digits/digits.safetensors" -o "$dir/float.infer" \
    --arch="$src/samples/digits/digits.json" --quiet

# ---- types by time: the second run measures nothing
best() {
    expect 0 "$1" "$infer" -m "$dir/mse.infer" --precision=best -v \
        --tune-cache="$dir/types.json" "$pictures/7.png"
}
best ' [1-9][0-9]* problems measured'
best ' 0 problems measured'
best 'types: conv2: [FI][0-9]*, .* ms in F32, .* in I8'
best 'types: [0-9]* of [0-9]* steps in 8 bits; a run takes'
expect 2 'wconv NETWORK -o FILE --quantize=int8' "$infer" -m "$dir/float.infer" \
    --precision=best "$pictures/7.png"
expect 1 'precision best chooses by measured time: deterministic' "$infer" \
    -m "$dir/mse.infer" --precision=best --deterministic "$pictures/7.png"

# A picture: random inputs lie beyond the calibrated ranges, which limit integers
# alone.
expect 0 '7' "$infer" -m "$dir/mse.infer" --dump-layers="$dir/layers" \
    "$pictures/7.png"
expect 0 'types: [0-9]* of [0-9]* steps' "$infer" -m "$dir/mse.infer" -v \
    --precision=best --compare=ref --rtol=0.1 --tune-cache="$dir/types.json" \
    --load-inputs="image:$dir/layers/0000-image.npy"
expect 1 'precision best .*: keep_tensors' "$infer" -m "$dir/mse.infer" \
    --precision=best --compare=ref --layers

# ---- budgets
quantize 0 'stays float: its error.*dB with it alone' -o "$dir/b" \
    --quantize=fp8 --calibrate="$pictures:4" --min-sqnr=29
quantize 0 '"alone_sqnr_db"' -o "$dir/c" --json --quantize=fp8 \
    --calibrate="$pictures:4" --min-sqnr=29
cmp -s "$dir/b" "$dir/c" || fail "two searches differ"
refuse 3 'one layer quantised.*cannot be kept' --quantize=fp8 \
    --calibrate="$pictures:2" --min-sqnr=200
refuse 1 'go with --quantize' --min-sqnr=20
refuse 1 'go with --quantize' --equalize
refuse 1 'go with --quantize' --evaluate="$pictures"
refuse 1 'min-sqnr' --quantize=int8 --calibrate="$pictures" --min-sqnr=x

# ---- classes from folders: names of labels, or numbers
mkdir "$dir/named" "$dir/numbers" "$dir/mixed" "$dir/empty" "$dir/one" \
    "$dir/named/seven" "$dir/named/two" "$dir/numbers/7" "$dir/numbers/2" \
    "$dir/mixed/seven" "$dir/mixed/other"
cp "$pictures/7.png" "$dir/named/seven"
cp "$pictures/2.png" "$dir/named/two"
cp "$pictures/7.png" "$dir/numbers/7"
cp "$pictures/3.png" "$dir/numbers/2" # which is wrong
cp "$pictures/7.png" "$dir/mixed/seven"
cp "$pictures/2.png" "$dir/mixed/other"
quantize 0 'right in 2 before, 2 after (.0.00 points)' -o "$dir/a" \
    --quantize=int8 --calibrate="$pictures:2" --evaluate="$dir/named"
quantize 0 'right in 1 before, 1 after' -o "$dir/a" --quantize=int8 \
    --calibrate="$pictures:2" --evaluate="$dir/numbers" --max-drop=0 --equalize
# Folders that name no class do not count; nor do any where most name none.
quantize 0 'right in 1 before, 1 after' -o "$dir/a" --quantize=int8 \
    --calibrate="$pictures:2" --evaluate="$dir/mixed"
quantize 0 "1 of 2 folders name no class .* ('other'): their pictures" \
    -o "$dir/a" --quantize=int8 --calibrate="$dir/mixed"
mkdir "$dir/mixed/more"
cp "$pictures/4.png" "$dir/mixed/more"
quantize 0 'equal in 3 of 3 (100.0 %)$' -o "$dir/a" --quantize=int8 \
    --calibrate="$pictures:2" --evaluate="$dir/mixed"
quantize 0 '"note":.*2 of 3 folders.*right answers are not counted' --json \
    -o "$dir/a" --quantize=int8 --calibrate="$dir/mixed"
mkdir "$dir/names" "$dir/names/cat" "$dir/names/dog"
cp "$pictures/7.png" "$dir/names/cat"
cp "$pictures/2.png" "$dir/names/dog"
quantize 0 "2 of 2 folders name no class .* ('cat'): right answers are not" \
    -o "$dir/a" --quantize=int8 --calibrate="$dir/names"

# ---- an output of integers is judged by the floats that it comes from
sed -e 's/"outputs": \["scores"\]/"outputs": ["best"]/' \
    -e 's/{"name": "flatten"/{"name": "argmax", "op": "arg_reduce", "in": ["scores"], \
    "out": ["best"], "attr": {"axis": 1}}, &/' \
    "$src/samples/digits/digits.json" >"$dir/argmax.json"
for sqnr in 10 200; do
    code=0
    [ $sqnr = 10 ] || code=3
    expect $code 'output SQNR [345][0-9]\.\|ratio of its outputs is [4-9][0-9]\.' \
        "$wconv" "$src/samples/digits/digits.safetensors" \
        --arch="$dir/argmax.json" -o "$dir/d" --quantize=int8 \
        --calibrate="$pictures:4" --min-sqnr=$sqnr
done

# ---- samples that are no good
refuse 1 'empty: holds no PNG or JPEG' --quantize=int8 --calibrate="$dir/empty"
refuse 1 'empty: holds no PNG or JPEG' --quantize=int8 \
    --calibrate="$pictures:2" --evaluate="$dir/empty"
refuse 2 'nowhere' --quantize=int8 --calibrate="$dir/nowhere"
refuse 1 '0 samples' --quantize=int8 --calibrate="$pictures:0"
cp "$pictures/4.png" "$dir/one"
quantize 0 '1 sample$' -o "$dir/a" --quantize=int8 --calibrate="$dir/one"
head -c 100 "$pictures/5.png" >"$dir/one/5.png"
refuse 2 '5.png' --quantize=int8 --calibrate="$dir/one"

# ---- arrays, as Python's standard library writes them
if command -v python3 >/dev/null; then
    python3 - "$dir" <<'PYTHON'
import struct
import sys
import zipfile


def npy(kind, shape, data):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (
        kind, tuple(shape))
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + \
        text.encode() + data


def save(name, **arrays):
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}.npz", "w") as z:
        for key, value in arrays.items():
            z.writestr(key + ".npy", value)


def images(values, kind="<f4", shape=(28, 28)):
    n = shape[0] * shape[1]
    code = {"<f4": "f", "<f8": "d"}[kind]
    return npy(kind, (len(values), 1) + shape, b"".join(
        struct.pack(f"<{n}{code}", *([v] * n)) for v in values))


save("good", image=images([0.2, 0.9]), labels=npy("<i8", (2,),
                                                  struct.pack("<2q", 1, 1)))
save("nan", image=images([0.2, float("nan")]))
save("inf", image=images([0.2, float("inf")]))
save("zero", image=images([0, 0]))
save("none", image=images([]))
save("shape", image=images([0.5], shape=(28, 27)))
save("name", picture=images([0.5]), other=images([0.5]))
save("few", image=images([0.2, 0.9]), labels=npy("<i8", (1,),
                                                 struct.pack("<q", 1)))
save("real", image=images([0.2, 0.9]), labels=npy("<f4", (2,),
                                                  struct.pack("<2f", 1, 1)))
save("class", image=images([0.2, 0.9]), labels=npy("<i8", (2,),
                                                   struct.pack("<2q", 1, 10)))
PYTHON
    quantize 0 'right in . before' -o "$dir/a" --quantize=int8 \
        --calibrate="$dir/good.npz"
    refuse 2 'sample 2: .*element 0 is nan' --quantize=int8 \
        --calibrate="$dir/nan.npz"
    refuse 2 'sample 2: .*element 0 is inf' --quantize=fp8 \
        --calibrate="$dir/inf.npz"
    refuse 2 'sample 2: .*is nan' --quantize=int8 --calibrate="$dir/nan.npz" \
        --equalize
    quantize 0 'conv1 .*0 in every sample' -o "$dir/a" --quantize=int8 \
        --calibrate="$dir/zero.npz"
    refuse 1 'holds no sample' --quantize=int8 --calibrate="$dir/none.npz"
    refuse 1 '27 entries' --quantize=int8 --calibrate="$dir/shape.npz"
    refuse 1 "no array for input 'image'" --quantize=int8 \
        --calibrate="$dir/name.npz"
    refuse 1 "'labels': 1 I64 for 2 images" --quantize=int8 \
        --calibrate="$dir/few.npz"
    refuse 1 "'labels': 2 F32 for 2 images" --quantize=int8 \
        --calibrate="$dir/real.npz"
    refuse 1 'class 10.*10 classes' --quantize=int8 \
        --calibrate="$dir/class.npz"
else
    echo "arrays are skipped: no python3"
fi

report
