#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command lines as a user meets them: the main job, exit codes, messages,
# and that nothing is left behind by a failure.  Run by make check, which sets
# srcdir and builds wconv, infer and kbench beside.
. "${srcdir:-.}/tests/conformance/expect.sh"

wconv=$here/wconv
infer=$here/infer
weights=$src/samples/digits/digits.safetensors
arch=--arch=$src/samples/digits/digits.json
pictures=$src/samples/digits/images
model=$dir/digits.infer

# ---- the main job
expect 0 'fold-batch-norm' "$wconv" "$weights" "$arch" -o "$model" --verify
# A network and its weights, in either order; the weights of an ncnn network may
# begin with nothing that tells them.
expect 0 'fold-batch-norm' "$wconv" "${arch#--arch=}" "$weights" -o "$dir/two.infer"
cmp -s "$model" "$dir/two.infer" || fail "a network and its weights make another file"
printf '7767517\n2 2\nInput x 0 1 x 0=2 1=2 2=1\nConvolution y 1 1 x y 0=1 1=1 6=1\n' \
    >"$dir/net.param"
printf '\0\0\0\0\0\0\0\100' >"$dir/other.bin"
expect 0 '1 nodes' "$wconv" "$dir/other.bin" "$dir/net.param" -o "$dir/two.infer"
expect 0 '1 nodes' "$wconv" "$dir/other.bin" --from=ncnn --arch="$dir/net.param" \
    -o "$dir/two.infer"
expect 2 'no format known' "$wconv" "$dir/other.bin" -o "$dir/x"
# A newline in the name of a file does not split the message.
newline=$(printf 'a\nb')
expect 2 'a.x0Ab: No such file' "$wconv" "$dir/$newline" -o "$dir/x"
expect 2 'a.x0Ab: No such file' "$infer" -m "$dir/$newline" "$pictures/0.png"
cp "$dir/other.bin" "$dir/$newline"
expect 2 'a.x0Ab: .*no format known' "$wconv" "$dir/$newline" -o "$dir/x"
rm "$dir/$newline"
# A few weights may look like text.
printf '7767517\n2 2\nInput x 0 1 x 0=2 1=1 2=2\nScale y 1 1 x y 0=2\n' >"$dir/net.param"
printf '\041\101\041\277' >"$dir/part"
cat "$dir/part" "$dir/part" >"$dir/other.bin"
expect 0 '1 nodes' "$wconv" "$dir/net.param" "$dir/other.bin" -o "$dir/two.infer"
expect 0 '1 nodes' "$wconv" "$dir/other.bin" "$dir/net.param" -o "$dir/two.infer"
rm "$dir/part"
expect 1 'and its weights' "$wconv" "$weights" "$weights" -o "$dir/x"
rm "$dir/net.param" "$dir/other.bin"
expect 0 'stripped.*optimiser state' "$wconv" "$weights" "$arch" -o "$model" -v
expect 2 'no built-in architecture fits' "$wconv" "$weights" -o "$dir/x"
expect 0 'pictures .*gray, scale 1/255 (architecture)' "$wconv" "$weights" \
    "$arch" -o "$model"
expect 0 'pictures .*mean 0.5 (options)' "$wconv" "$weights" "$arch" \
    -o "$dir/layers.infer" --mean=0.5
# What is not said stays as it was; a mean of pixels of 0 to 255 scales by 1.
expect 0 'pictures *letterbox .*scale 1/255 (options)' "$wconv" "$weights" \
    "$arch" -o "$dir/other.infer" --resize=letterbox
expect 0 'exact size .*scale 1, mean 127, std 128 (options)' "$wconv" \
    "$weights" "$arch" -o "$dir/other.infer" --mean=127 --std=128
expect 0 'letterbox .*scale 1, mean 127, std 128 (options)' "$wconv" \
    "$dir/other.infer" -o "$dir/other.infer" --resize=letterbox
expect 0 'scale 1/255, mean 0.5, std 0.5 (options)' "$wconv" \
    "$dir/other.infer" -o "$dir/other.infer" --mean=0.5 --std=0.5
rm "$dir/other.infer"
expect 0 'pictures .*mean 0.5 (model file)' "$wconv" inspect \
    "$dir/layers.infer"
expect 0 'pictures .*mean 0.485,0.456,0.406, .*(architecture)' "$wconv" inspect \
    resnet18
expect 0 '  verified' "$wconv" "$weights" "$arch" -o "$model" --verify=reference
expect 0 'quantised *4 *of 4 layers' "$wconv" "$weights" "$arch" -o "$dir/int8.infer" \
    --quantize=int8 --calibrate="$pictures" --verify
expect 0 'top class equal in 10 of 10' "$wconv" "$weights" "$arch" \
    -o "$dir/again.infer" --quantize=int8 --calibrate="$pictures"
cmp -s "$dir/int8.infer" "$dir/again.infer" || fail "two quantisations differ"
test "$(wc -c <"$dir/int8.infer")" -lt $(($(wc -c <"$model") / 2)) ||
    fail "the quantised file is not half as long"
expect 0 ' I8 ' "$wconv" inspect --weights "$dir/int8.infer"
expect 0 '  seven  ' "$infer" -m "$dir/int8.infer" "$pictures/7.png"
expect 0 'conv1 .*asked for' "$wconv" "$weights" "$arch" -o "$dir/int8.infer" \
    --quantize=int8 --calibrate="$pictures:3" --keep-float='conv1,f?'
expect 1 'no layer.*nothing' "$wconv" "$weights" "$arch" -o "$dir/x" \
    --quantize=int8 --calibrate="$pictures" --keep-float=nothing
expect 3 'less than 101' "$wconv" "$weights" "$arch" -o "$dir/x" --verify \
    --quantize=int8 --calibrate="$pictures" --agreement=101
expect 0 'quantised *4 *of 4 layers to fp8' "$wconv" "$weights" "$arch" \
    -o "$dir/fp8.infer" --quantize=fp8 --calibrate="$pictures" --verify
expect 0 'top class equal in 10 of 10' "$wconv" "$weights" "$arch" \
    -o "$dir/again.infer" --quantize=fp8 --calibrate="$pictures"
cmp -s "$dir/fp8.infer" "$dir/again.infer" || fail "two quantisations differ"
expect 0 ' F8_E4M3 ' "$wconv" inspect --weights "$dir/fp8.infer"
expect 0 '  seven  ' "$infer" -m "$dir/fp8.infer" "$pictures/7.png"
expect 0 '  seven  ' "$infer" -m "$dir/fp8.infer" --backend=ref "$pictures/7.png"
expect 2 'F8_E4M3' "$wconv" "$dir/fp8.infer" -o "$dir/x" --emit-c="$dir/x.c"
expect 1 'holds no PNG' "$wconv" "$weights" "$arch" -o "$dir/x" \
    --quantize=fp8 --calibrate="$dir"
expect 1 'int8' "$wconv" "$weights" "$arch" -o "$dir/x" --quantize=fp9 \
    --calibrate="$pictures"
expect 1 'needs samples' "$wconv" "$weights" "$arch" -o "$dir/x" --quantize=int8
expect 1 'go with --quantize' "$wconv" "$weights" "$arch" -o "$dir/x" \
    --calibrate="$pictures"
mkdir "$dir/none.infer"
expect 1 'holds no PNG' "$wconv" "$weights" "$arch" -o "$dir/x" \
    --quantize=int8 --calibrate="$dir/none.infer"
expect 2 'shape\|expected\|missing' "$wconv" "$weights" --arch=lenet5 -o "$dir/x"
expect 1 'name: resnet20-cifar' "$wconv" "$weights" --arch=resnet20 -o "$dir/x"
expect 1 'name: mobilenet_v2' "$wconv" "$weights" --arch=mobilnet_v2 -o "$dir/x"
expect 1 'src-layout.*nhwc' "$wconv" "$weights" "$arch" -o "$dir/x" --src-layout=x
expect 2 "has not the shape" "$wconv" "$weights" "$arch" -o "$dir/x" --src-layout=nhwc
absent "$dir/x"
for digit in 0 1 2 3 4 5 6 7 8 9; do
    expect 0 "% *$digit " "$infer" -m "$model" -k1 "$pictures/$digit.png"
done
expect 0 '"label":.*"nine"' "$infer" -m "$model" --json -b 4 "$pictures"
expect 2 '112 x 112 pixels, more than the 12543 allowed' "$infer" -m "$model" \
    --max-pixels=12543 "$pictures/7.png"
expect 0 'seven' "$infer" -m "$model" --max-pixels=12544 "$pictures/7.png"
expect 2 'are needed (activations .* (max_memory)' "$infer" -m "$model" \
    --max-memory=20000 "$pictures/7.png"
expect 0 'seven' "$infer" -m "$model" --max-memory=0.5GiB "$pictures/7.png"
expect 0 'seven' "$infer" -m "$model" --max-memory=512M "$pictures/7.png"
# A batch within less memory than it takes.
expect 0 '^same$' sh -c "'$infer' -m '$model' -b 10 --json --backend=ref \
    '$pictures' >'$dir/whole.json' && '$infer' -m '$model' -b 10 --json \
    --backend=ref --max-memory=300000 '$pictures' | cmp - '$dir/whole.json' &&
    echo same"
rm "$dir/whole.json"
for bytes in 5Q M -1 0 nan 1MB 1e30T ''; do
    expect 1 'max-memory takes bytes such as' "$infer" -m "$model" \
        --max-memory="$bytes" "$pictures/7.png"
done
expect 2 'operations and bytes of work, .* (max_work)' "$infer" -m "$model" \
    --max-work=1e3 --bench
expect 1 'max-pixels is for pictures' "$infer" -m "$model" --max-pixels=9 --bench
expect 0 'images/s' "$infer" -m "$model" --bench --warmup=0 --duration=10ms \
    --percentile=50,99 --threads=1
expect 0 'batch 1, 7 runs: ' "$infer" -m "$model" --bench --warmup=0 --runs=7
expect 0 '"runtime":.*thread' "$infer" -m "$model" --bench --runs=2 --json
# Several sessions, arrivals, and an earlier run to compare with.
expect 0 ', 3 streams of 1 thread, ' "$infer" -m "$model" --bench --warmup=0 \
    --runs=7 --streams=3 --threads=1 --histogram
[ "$(grep -c '^ *[0-9.]* ms' "$dir/out")" -eq 12 ] || fail "histogram of 12 lines"
expect 0 'batch 2, 5 runs: .*, [0-9.]* images/s$' "$infer" -m "$model" -b2 \
    --bench --warmup=0 --runs=5 --rate=1000 --streams=2
grep -q '^1000 runs/s were to begin' "$dir/out" || fail "what --rate was"
expect 0 'arrivals were still waiting at the end' "$infer" -m "$model" --bench \
    --warmup=0 --duration=10ms --rate=1000000
expect 1 'a number from 0.001' "$infer" -m "$model" --bench --rate=0
expect 1 'not with --streams' "$infer" -m "$model" --bench --rate=1 --profile
"$infer" -q -m "$model" --bench --warmup=0 --runs=3 --json --threads=1 |
    sed 's/\("median_ms":\).*/\1 1e9,/' >"$dir/slow.json"
expect 0 '^median, ms  *1000000000.000 ' "$infer" -m "$model" --bench --runs=3 \
    --warmup=0 --threads=1 --compare-with="$dir/slow.json" --fail-below=1
expect 0 'batch: 1 before, 2 now' "$infer" -m "$model" --bench --runs=3 -b2 \
    --compare-with="$dir/slow.json"
sed 's/\("median_ms":\).*/\1 2e9,/' "$dir/slow.json" >"$dir/slower.json"
expect 3 'the median is 0.500 times as fast' "$infer" --bench --fail-below=0.9 \
    --compare-with="$dir/slow.json" "$dir/slower.json"
expect 0 '"median_ms":.*[^0-9]2,$' "$infer" --bench --json \
    --compare-with="$dir/slower.json" "$dir/slow.json"
expect 2 'not what infer --bench --json wrote' "$infer" --bench \
    --compare-with="$src/samples/digits/digits.json" "$dir/slow.json"
rm "$dir/slow.json" "$dir/slower.json"
expect 1 'goes with --compare-with' "$infer" -m "$model" --bench --fail-below=1
expect 0 '"median_ms"' "$infer" -m "$model" --bench --duration=10ms --json -b3
expect 0 'ok .*against ref' "$infer" -m "$model" --compare=ref --layers
expect 0 'ok .*against ref: max [0-9.e-]*[1-9]' "$infer" -m "$model" \
    --backend=ref --precision=bf16 --compare=ref
expect 0 'ms in all' "$infer" -m "$model" --bench --duration=10ms --profile
# A note where other work takes the core away.
core=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
if command -v taskset >/dev/null && [ -n "$(cat /proc/self/schedstat)" ]; then
    taskset -c "$core" sh -c 'while :; do :; done' &
    other=$!
    expect 0 'waited for a core' taskset -c "$core" "$infer" -m "$model" \
        --bench --threads=1 --duration=500ms
    kill $other
    wait $other 2>/dev/null
fi
expect 0 'peak of the process' "$infer" -m "$model" --bench --duration=10ms \
    --report-memory --report-load-time
expect 0 . "$infer" -m "$model" --dump-layers="$dir/layers" \
    "$pictures/3.png"
expect 0 'scores' ls "$dir/layers"
expect 0 '^cores' "$infer" --doctor
expect 0 '"backend ref":' "$infer" --doctor --json
printf '%s\n%s\n' "$pictures/1.png" "$pictures/2.png" >"$dir/list"
expect 0 '2.png' "$infer" -m "$model" "$dir/list"
printf '\357\273\277%s\r\n\n%s' "$pictures/1.png" "$pictures/2.png" >"$dir/list"
expect 0 '2.png' "$infer" -m "$model" "$dir/list"
expect 0 '2.png' "$infer" -m "$model" "@$dir/list"
expect 0 'seven' sh -c "'$infer' -m '$model' -k1 - <'$pictures/7.png'"
expect 2 'standard input' sh -c "'$infer' -m '$model' - </dev/null"
for start in "$(printf '%05000d' 1)" 'a\rb' 'no such picture'; do
    # shellcheck disable=SC2059
    printf "$start" >"$dir/list"
    expect 2 'list: neither a PNG or JPEG picture nor a list' "$infer" \
        -m "$model" "$dir/list"
done

# A line that names no file is reported with its list and number, ten of them at
# most; a pipe is read to its end.
printf '%s\n\nnowhere\n' "$pictures/7.png" >"$dir/list"
expect 2 'list, line 3: nowhere: No such file' "$infer" -m "$model" -k1 "@$dir/list"
expect 2 'seven' "$infer" -m "$model" -k1 "@$dir/list"
seq 30 >"$dir/list"
expect 2 '30 of 30 pictures could not be read' "$infer" -m "$model" "@$dir/list"
[ "$(grep -c ': No such file' "$dir/out")" = 10 ] || fail 'not ten errors'
mkfifo "$dir/pipe"
cat "$pictures/7.png" >"$dir/pipe" &
expect 0 'seven' "$infer" -m "$model" -k1 "$dir/pipe"
wait $!
cat /dev/null >"$dir/pipe" &
expect 2 'pipe: ' "$infer" -m "$model" -k1 "$dir/pipe"
wait $!
expect 0 'seven' sh -c "'$infer' -m '$model' --try-presets - <'$pictures/7.png'"

# Pictures of a folder that are not read are told of.
mkdir "$dir/mixed"
cp "$pictures/7.png" "$dir/mixed"
printf 'RIFF$\000\000\000WEBPVP8 ' >"$dir/mixed/a.webp"
printf '\000\000\000\014JXL \r\n' >"$dir/mixed/b.jxl"
printf 'notes' >"$dir/mixed/c.txt"
expect 0 '2 pictures .* left out (.*a.webp: a WebP picture)' "$infer" \
    -m "$model" "$dir/mixed"
: >"$dir/mixed/d.PNG"
expect 2 'd.PNG: the file is empty' "$infer" -m "$model" "$dir/mixed"
rm -r "$dir/mixed" "$dir/pipe"
expect 0 'task .*classify (by the outputs)' "$wconv" inspect "$model"

# What is no picture is called by its name, and is no list.
for start in 'RIFF$\000\000\000WEBPVP8 =a WebP' 'GIF89a=a GIF' \
    '<!DOCTYPE html>=an HTML page' 'hello=neither PNG nor JPEG'; do
    # shellcheck disable=SC2059
    printf "${start%=*}" >"$dir/page.jpg"
    expect 2 "page.jpg: .*${start##*=}" "$infer" -m "$model" "$dir/page.jpg"
done

# ---- an input of one picture without a batch, as torchvision exports detectors
cat >"$dir/single.json" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32", "shape": [3, 16, 16]}],
 "nodes": [{"name": "r", "op": "reshape", "in": ["x"], "out": ["r"],
            "attr": {"shape": [96, 8]}},
           {"name": "s", "op": "split", "in": ["r"], "out": ["boxes", "scores"],
            "attr": {"axis": 1, "sizes": [4, 4]}}],
 "outputs": ["boxes", "scores"]}
END
expect 0 'task  *detect:scored (by the outputs)' "$wconv" "$dir/single.json" \
    -o "$dir/single.infer" --resize=letterbox --mean=0,0,0 --std=1
expect 0 'pictures letterbox .*RGB, scale 1/255 (model file)' "$wconv" inspect \
    "$dir/single.infer"
expect 0 '3.png' "$infer" -m "$dir/single.infer" "$pictures/7.png" "$pictures/3.png"
expect 0 'as stored .* boxes' "$infer" -m "$dir/single.infer" --try-presets \
    "$pictures/7.png"
expect 1 'has 2 values, but input .x. has 3 channels' "$wconv" \
    "$dir/single.json" -o "$dir/x" --mean=1,2
rm "$dir/single.json" "$dir/single.infer"

# ---- pictures out: a network whose output is a picture
cat >"$dir/root.json" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32", "shape": [-1, 3, -1, -1]}],
 "nodes": [{"name": "r", "op": "unary", "in": ["x"], "out": ["y"],
            "attr": {"kind": "sqrt"}}], "outputs": ["y"]}
END
expect 0 . "$wconv" "$dir/root.json" -o "$dir/root.infer"
expect 0 '112 x 112' "$infer" -m "$dir/root.infer" "$pictures/7.png" \
    -o "$dir/seven.png"
expect 0 '"output":.*8.png' "$infer" -m "$dir/root.infer" "$pictures" \
    -o "$dir/roots" --json
expect 0 '8.png' ls "$dir/roots"
# A name without a dot is a folder; standard input is called stdin there.
expect 0 . sh -c "'$infer' -m '$dir/root.infer' -o '$dir/one' - <'$pictures/7.png'"
expect 0 '^stdin.png$' ls "$dir/one"
rm -r "$dir/one"
expect 1 'read from a file, not from standard input' "$infer" -m - "$pictures/7.png"
expect 1 'read from a file, not from standard input' "$wconv" - -o "$dir/x"
expect 1 'written to a file, not to standard output' "$wconv" "$weights" "$arch" -o -
absent -
expect 0 '-o FOLDER writes it' "$infer" -m "$dir/root.infer" "$pictures/7.png"
expect 1 'go into a folder' "$infer" -m "$dir/root.infer" "$pictures" \
    -o "$dir/x.png"
expect 1 'written as .png' "$infer" -m "$dir/root.infer" "$pictures/7.png" \
    -o "$dir/x.bmp"
expect 1 'would replace the picture' "$infer" -m "$dir/root.infer" \
    "$dir/seven.png" -o "$dir/seven.png"
expect 1 'taken for scores of classes and not drawn' "$infer" -m "$model" "$pictures/7.png" \
    -o "$dir/x.png"
expect 1 'taken for an embedding and not drawn' "$infer" -m "$model" --task=embedding \
    "$pictures/7.png" -o "$dir/x.png"
expect 0 '10 values, norm .*, cosine with the first picture 1.0000' "$infer" \
    -m "$model" --task=embedding "$pictures/7.png" "$pictures/7.png"
expect 0 '"cosine":' "$infer" -m "$model" --task=embedding --json \
    "$pictures/7.png" "$pictures/3.png"
expect 0 '^      4  (' "$infer" -m "$model" --task=landmarks "$pictures/7.png" \
    -o "$dir/points.png"
[ -s "$dir/points.png" ] || fail 'no points are drawn'
rm -f "$dir/points.png"
expect 0 '^      2  (' "$infer" -m "$model" --task=landmarks:2 \
    "$pictures/7.png"
expect 2 'no list of points' "$infer" -m "$model" --task=landmarks:3 \
    "$pictures/7.png"
expect 2 'no map of depths' "$infer" -m "$model" --task=depth "$pictures/7.png"
# A refusal leaves no folder for results that never came.
expect 2 'no map of depths' "$infer" -m "$model" --task=depth "$pictures/7.png" \
    -o "$dir/none"
[ ! -d "$dir/none" ] || fail "an empty folder was left behind"
expect 1 'is not a task' "$wconv" "$dir/root.json" -o "$dir/x" --task=detekt
expect 0 . "$wconv" "$dir/root.json" -o "$dir/root.infer" --task=segment
expect 0 'task *segment' "$wconv" inspect "$dir/root.infer"
expect 0 '%  ' "$infer" -m "$dir/root.infer" "$pictures/7.png"
expect 2 'no decoder knows' "$infer" -m "$dir/root.infer" --task=detect \
    "$pictures/7.png"
expect 1 'task is for pictures' "$infer" -m "$model" --task=detect --bench
absent "$dir/x.png"
absent "$dir/x.bmp"
absent "$dir/x"

# ---- looking inside
expect 0 'input .*image' "$wconv" inspect "$model"
expect 0 'conv .*+relu' "$wconv" inspect --layers "$model"
expect 0 'F32' "$wconv" inspect --weights "$model"
expect 0 '^digraph' "$wconv" inspect --dot "$model"
for option in --dot --layers --weights; do
    expect 1 'forms of the answer' "$wconv" inspect --json $option "$model"
done
expect 1 'forms of the answer' "$wconv" inspect --dot --layers "$model"
expect 0 'nodes' "$wconv" inspect resnet18
expect 1 'nearest built-in name: resnet18' "$wconv" inspect resnet19
expect 1 'name: resnet20-cifar' "$wconv" inspect cifar_resnet20
expect 1 'nor a file (wconv --list-archs' "$wconv" inspect xyzxyz
expect 0 '"op"' "$wconv" inspect --json lenet5
expect 0 . "$wconv" --list-passes
expect 0 'resnet50' "$wconv" --list-archs
expect 0 'onnx' "$wconv" --list-formats
expect 0 '^conv_transpose: x weight .bias.; act' "$wconv" --list-ops
expect 0 '^    groups=1 stride=1 .*auto_pad=explicit$' "$wconv" --list-ops
expect 0 '^    auto_pad: explicit same_upper' "$wconv" --list-ops
expect 0 '"name":.*"conv_transpose"' "$wconv" --list-ops --json
expect 0 '"level":.*1' "$wconv" --json --list-passes
expect 1 'unknown option' "$wconv" --list-ops --what
# The manual's example is one.
sed -n -e 's/\\-/-/g' -e '/^{"infer"/,/^ "outputs"/p' \
    "$src/tools/man/wconv.1" >"$dir/manual.infer"
expect 0 'dense  *fc  *Nx?' "$wconv" inspect --layers "$dir/manual.infer"
cp "$model" "$dir/copy.infer"
"$wconv" diff "$model" "$dir/copy.infer" || fail "diff of a copy"
expect 1 'writes no JSON' "$wconv" diff --json "$model" "$dir/copy.infer"
expect 0 . "$wconv" "$weights" "$arch" -o "$dir/half.infer" --dtype=fp16 -O1
expect 3 '^! ' "$wconv" diff "$model" "$dir/half.infer"
expect 0 "% *7 " "$infer" -m "$dir/half.infer" -k1 "$pictures/7.png"
printf '1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n' >"$dir/labels"
expect 0 . "$wconv" "$model" -o "$dir/named.infer" --labels="$dir/labels"
printf 'a\nb\n' >"$dir/two"
expect 0 'note: .*two has 2 labels for 10 classes' "$wconv" "$model" \
    -o "$dir/two.infer" --labels="$dir/two"
rm "$dir/two" "$dir/two.infer"
expect 1 'std takes 1 to 4 numbers other than 0' "$wconv" "$model" \
    -o "$dir/two.infer" --std=1,0
expect 3 '^! labels' "$wconv" diff "$model" "$dir/named.infer"
expect 0 . "$wconv" "$model" -o "$dir/scaled.infer" --scale=1/127
expect 3 '^! inputs' "$wconv" diff "$model" "$dir/scaled.infer"

# ---- kernels beside each other
kbench=$here/kbench
small="conv -n1 -c8 -H9 -k8 -R3 --pad=1 --rounds=1 --threads=1"
# shellcheck disable=SC2086
expect 0 'conv_fprop_ref' "$kbench" $small --bias --act=relu --backends=ref
# shellcheck disable=SC2086
expect 0 'mb4ic8ih9oc8' "$kbench" $small --sweep n=1,4 --backends=ref
# shellcheck disable=SC2086
expect 0 '"outputs_verified"' "$kbench" $small --json --backends=ref
expect 0 ' x[0-9]* *conv_fprop_ref' "$kbench" -m "$src/tests/arch/resnet_2b.json" \
    -b 2 --threads=1 --rounds=1 --backends=ref
expect 0 'conv_fprop' "$kbench" all -m "$model" --threads=1 --rounds=1 \
    --backends=ref --html="$dir/kernels.infer" --csv="$dir/csv.infer"
expect 0 '</html>' tail -n 1 "$dir/kernels.infer"
expect 1 '^0$' grep -c -e 'http' -e ' src=' -e '<link' "$dir/kernels.infer"
expect 0 'model,layer,batch' head -n 1 "$dir/csv.infer"
# shellcheck disable=SC2086
expect 0 'conv_wgrad_ref' "$kbench" $small --dir=dgrad,wgrad --backends=ref
# shellcheck disable=SC2086
expect 2 'csv.infer' "$kbench" $small --backends=ref \
    --compare-with="$dir/csv.infer"
# Reports: one document on standard output, none kept back by another, and
# what cannot be written is said before anything is measured.
# shellcheck disable=SC2086
expect 1 '^0$' sh -c "'$kbench' $small --backends=ref --csv=- | grep -vc ,"
# shellcheck disable=SC2086
expect 1 'one can go to standard output' "$kbench" $small --csv=- --json
for name in a b; do
    # shellcheck disable=SC2086
    expect 2 "nowhere/$name: " "$kbench" $small --json="$dir/csv.infer" \
        --csv="$dir/nowhere/a" --html="$dir/nowhere/b"
done
expect 0 'model,layer,batch' head -n 1 "$dir/csv.infer"
if [ -w /dev/full ]; then
    # shellcheck disable=SC2086
    expect 2 '/dev/full: ' "$kbench" $small --backends=ref --csv=/dev/full \
        --json="$dir/json.infer"
    expect 0 '"kbench":' cat "$dir/json.infer"
fi
# A report that cannot be written whole leaves the one before.
printf 'before\n' > "$dir/html.infer"
# shellcheck disable=SC2086
expect 2 'html.infer: ' sh -c "trap '' XFSZ; ulimit -f 1; exec '$kbench' $small \
    --backends=ref -q --html='$dir/html.infer'"
expect 0 '^before$' cat "$dir/html.infer"
odd=$(printf 'caf\351.infer')
cp "$model" "$dir/$odd"
expect 0 . "$kbench" all -m "$dir/$odd" --threads=1 --rounds=1 --backends=ref \
    --html="$dir/odd.infer"
expect 0 'caf..xE9' cat "$dir/odd.infer"
rm "$dir/$odd"
# ---- kbench: multipliers
expect 0 'worst operands *1.5 x 1.5 = 2$' "$kbench" multiplier mitchell-7
expect 0 'broken-array-M-C' "$kbench" multiplier --list
expect 0 . "$kbench" multiplier mbm-5 --axm="$dir/mbm.axm"
expect 0 '"commutative":	true' "$kbench" multiplier "$dir/mbm.axm" --json
rm "$dir/mbm.axm"
awk 'BEGIN { for (a = 0; a < 16; a++) for (b = 0; b < 16; b++) print a * b }' \
    >"$dir/four.txt"
expect 0 'unsigned integers of 4 bits (text)' "$kbench" multiplier "$dir/four.txt"
cat >"$dir/own.c" <<'END'
#include <math.h>
const char multiplier_kind[] = "float";
const int multiplier_bits = 3;
double multiplier_product(double a, double b)
{
    const double step = a * b < 2 ? 8 : 4;
    return floor(a * b * step) / step;
}
END
crc=$("$kbench" multiplier truncated-3 | sed -n 's/.*CRC-32 //p')
expect 0 "own: .* 3 mantissa bits (C function), .* CRC-32 $crc" "$kbench" \
    multiplier "$dir/own.c" --html="$dir/own.html" --model="$model"
expect 0 'count as often as their operands in' cat "$dir/own.html"
expect 1 '^0$' sh -c "ls -d ${TMPDIR:-/tmp}/multiplier-* 2>/dev/null |
    xargs -r ls 2>/dev/null | grep -c generate"
expect 0 'wrong products' "$kbench" multiplier mbm-5 --model="$model" \
    --inputs="$src/samples/digits/images:2"
expect 1 'inputs needs --model' "$kbench" multiplier mbm-5 --inputs="$dir"
sed -i 's/"float"/"fixed"/' "$dir/own.c"
expect 2 "multiplier_kind is 'fixed'" "$kbench" multiplier "$dir/own.c"
echo 'int multiplier_product = ' >"$dir/own.c"
expect 2 'cc ends with status 1' env CC= "$kbench" multiplier "$dir/own.c"
rm "$dir/own.c" "$dir/own.html"
# ---- infer: multipliers
digit=$src/samples/digits/images/7.png
expect 0 'conv_fprop_f32_cpu_table' "$here/infer" -m "$model" --profile \
    --multiplier=mbm-7 "$digit"
expect 0 'dense_fprop_f32_cpu_table' "$here/infer" -m "$model" --profile \
    --multiplier=mbm-7 "$digit"
expect 0 'conv_fprop_ref' "$here/infer" -m "$model" --profile --backend=ref \
    --multiplier=mbm-7 "$digit"
expect 1 '^0$' sh -c "'$here/infer' -m '$model' --profile --multiplier=mbm-7 \
    --multiplier-exact='*' '$digit' | grep -c cpu_table"
expect 0 '^1 dense' sh -c "'$here/infer' -m '$model' --profile \
    --multiplier=mbm-7 --multiplier-exact='first,conv*' '$digit' |
    grep -o '[a-z]*_fprop_f32_cpu_table' | sort | uniq -c | sed 's/^ *//'"
expect 1 "is named 'conv9'" "$here/infer" -m "$model" --multiplier=mbm-7 \
    --multiplier-exact=conv9 "$digit"
expect 1 'there is no multiplier' "$here/infer" -m "$model" \
    --multiplier-exact=first "$digit"
expect 2 'layers on integers take 8' "$here/infer" -m "$model" \
    --multiplier="$dir/four.txt" "$digit"
expect 1 'takes M from 1 to 11' "$here/infer" -m "$model" \
    --multiplier=exact-12 "$digit"
rm "$dir/four.txt"
# Integers of 8 bits: an exact table gives the exact network's bits.
awk 'BEGIN { for (a = 0; a < 256; a++) for (b = 0; b < 256; b++) print a * b }' \
    >"$dir/eight.txt"
expect 0 . "$wconv" "$weights" "$arch" -o "$dir/int8.infer" --quantize=int8 \
    --calibrate="$pictures"
expect 0 '^same$' sh -c "'$here/infer' -m '$dir/int8.infer' '$digit' --json \
    >'$dir/exact.json' && '$here/infer' -m '$dir/int8.infer' '$digit' --json \
    --multiplier='$dir/eight.txt' | cmp - '$dir/exact.json' && echo same"
expect 0 'conv_fprop_nhwc_u8_cpu_table.*conv2' "$here/infer" \
    -m "$dir/int8.infer" --profile --multiplier="$dir/eight.txt" "$digit"
expect 2 "layer 'conv1' .*not quantised" "$here/infer" -m "$model" \
    --multiplier="$dir/eight.txt" "$digit"
rm "$dir/eight.txt" "$dir/int8.infer" "$dir/exact.json"
# ---- wconv: multipliers in model files
stored=$dir/stored.infer
expect 0 . "$wconv" "$model" -o "$stored" --multiplier=mbm-3 \
    --multiplier-exact=first --verify
expect 0 '^multiplier mbm-3: floating point of 3 mantissa bits, .*exact: first$' \
    "$wconv" inspect "$stored"
expect 0 '^1 conv' sh -c "'$here/infer' -m '$stored' --profile '$digit' |
    grep -o '[a-z]*_fprop_f32_cpu_table' | sort | uniq -c | sed 's/^ *//' |
    sed 's/^2 conv/1 conv/'"
expect 1 '^0$' sh -c "'$here/infer' -m '$stored' --profile --multiplier=none \
    '$digit' | grep -c cpu_table"
expect 3 'multiplier' "$wconv" diff "$model" "$stored"
expect 0 . "$wconv" "$stored" -o "$stored" --multiplier-exact=last
expect 0 'exact: last$' "$wconv" inspect "$stored"
expect 0 . "$wconv" "$stored" -o "$stored" --multiplier=none
expect 1 'has no multiplier' "$wconv" "$stored" -o "$stored" \
    --multiplier-exact=last
expect 1 "is named 'fc9'" "$wconv" "$stored" -o "$stored" --multiplier=mbm-3 \
    --multiplier-exact=fc9
rm "$stored"
expect 2 'no table of a multiplier' "$kbench" multiplier "$model"
expect 1 'takes M from 1 to 11' "$kbench" multiplier exact-12
expect 1 'axm takes one' "$kbench" multiplier exact-1 exact-2 --axm="$dir/x.axm"
expect 1 'no multiplier is given' "$kbench" multiplier
# ---- kbench: words that do not go together, and runs that show nothing
expect 1 'figures of their own' "$kbench" -m lenet5 -n4
# shellcheck disable=SC2086
expect 1 'batch goes with --model' "$kbench" $small -b4
# shellcheck disable=SC2086
expect 1 '^1$' sh -c "! '$kbench' --problem=mb1ic8ih9oc8oh7kh3 --bias --rounds=1 \
    --threads=1 --backends=ref --csv=- | grep -c conv_fprop.mb"
# shellcheck disable=SC2086
expect 2 'none of the kernels' "$kbench" $small --backends=ref --kernels='*cpu*'
# shellcheck disable=SC2086
expect 3 'fail-below: no problem' "$kbench" $small --backends=ref --fail-below=1
expect 1 'dir' "$kbench" conv -H9 --dir=backward
expect 1 'only convolutions' "$kbench" pool -H9 --dir=dgrad
expect 1 'no problem' "$kbench" --rounds=1
expect 1 'benchdnn' "$kbench" --problem=mb1zz3
expect 1 'does not fit' "$kbench" conv -H3 -R9
expect 1 "no operation 'conf'" "$kbench" conf
expect 1 'sample goes with a file' "$kbench" --sample=3
expect 2 'nowhere.txt: No such file' "$kbench" ./nowhere.txt
expect 0 'conv_fprop mb2ic3ih224oc64oh112kh7sh2ph3 .*x1' \
    "$kbench" conv -m resnet18 -b 2 --list
expect 1 'it is empty' "$kbench" --problem=
expect 1 'needs a pad of 281474959933440' "$kbench" \
    --problem=ih1oh16777216kh1sh16777216
expect 1 'batch takes numbers from 1 to 1048576' "$kbench" -m lenet5 -b 9999999
expect 1 'need a file each' "$kbench" conv -H9 --csv="$dir/x" \
    --json="$dir/./x"
cp "$model" "$dir/own.infer"
expect 1 'none of the models' "$kbench" all -m "$dir/own.infer" \
    --html="$dir/own.infer"
expect 1 "did you mean '--threads'" "$kbench" --thread5=2
expect 1 'dtype' "$kbench" conv -H9 --dtype=fp12
expect 1 'sweep' "$kbench" conv -H9 --sweep=n=4:1
expect 1 "'nothing' matches no kernel" "$kbench" conv -H9 --kernels=nothing
expect 1 'groups' "$kbench" conv -H9 -c8 -k8 -g3
expect 2 "$dir/missing" "$kbench" -m "$dir/missing"
expect 1 'nearest built-in name: resnet18' "$kbench" -m resnet19
echo 'no problem' >"$dir/%s%n%s.txt"
expect 1 '%s%n%s.txt: line 1: ' "$kbench" "$dir/%s%n%s.txt" --sample=1
rm "$dir/%s%n%s.txt"
expect 4 'cuda' "$kbench" conv -H9 --device=cuda:7
expect 4 'needs --device=cuda' "$kbench" conv -H9 --backends=cudnn
expect 2 'precision fp16' "$kbench" conv -H9 --dtype=fp16
# shellcheck disable=SC2086
expect 2 "$dir/nowhere" "$kbench" $small --html="$dir/nowhere/x" --backends=ref

# ---- pictures that cannot be read are named, the others run all the same
mkdir "$dir/folder"
cp "$pictures/3.png" "$dir/folder/a.png"
head -c 100 "$pictures/3.png" >"$dir/folder/b.png"
cp "$pictures/7.png" "$dir/folder/c.png"
ln -s nowhere "$dir/folder/d.png"
for line in 'infer: .*folder/b.png: ' '% *3 ' '% *7 ' \
    'infer: .*folder/d.png: No such file' '2 of 4 pictures could not be read'; do
    expect 2 "$line" "$infer" -m "$model" -k1 -b2 "$dir/folder"
done
expect 2 '^	*}' "$infer" -m "$model" -k1 --json "$dir/folder"
rm -r "$dir/folder"
cat >"$dir/mean.infer" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32", "shape": [-1, 1, 8, 8]}],
 "nodes": [{"name": "r", "op": "reduce",
            "attr": {"kind": "mean", "axes": [0, 2]}, "in": ["x"],
            "out": ["y"]}], "outputs": ["y"]}
END
expect 0 . "$wconv" "$dir/mean.infer" -o "$dir/mean.infer"
expect 1 "output 'y' has no row for each picture" "$infer" -m "$dir/mean.infer" \
    -b 4 "$pictures"

cat >"$dir/same.infer" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32", "shape": [-1, 1, 8, 8]}],
 "nodes": [{"name": "r", "op": "unary", "attr": {"kind": "relu"}, "in": ["x"],
            "out": ["y"]}], "outputs": ["y"]}
END
expect 0 . "$wconv" "$dir/same.infer" -o "$dir/same.infer"
expect 0 "note: output 'y' has 4 dimensions and is shown as 64 classes" \
    "$infer" -m "$dir/same.infer" --task=classify "$pictures/3.png"
expect 1 '^0$' sh -c "'$infer' -m '$model' '$pictures/3.png' 2>&1 |
    grep -c note"

# Inputs whose shape is open, that take integers, or that are no picture's.
cat >"$dir/open.infer" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32"}],
 "nodes": [{"name": "r", "op": "unary", "attr": {"kind": "relu"}, "in": ["x"],
            "out": ["y"]}], "outputs": ["y"]}
END
expect 1 "verify: the shape of input 'x' is open: name one" "$wconv" \
    "$dir/open.infer" -o "$dir/open.infer" --verify
expect 1 "input 'x' is read as F32 by the file" "$wconv" "$dir/open.infer" \
    -o "$dir/open.infer" --input-type=x:F64
expect 1 "input 'x' is given two types, F32 and I64" "$wconv" "$dir/open.infer" \
    -o "$dir/open.infer" --input-type=x:F32 --input-type=x:I64
expect 1 "input 'x' of a file of this format cannot be fixed" "$wconv" \
    "$dir/open.infer" -o "$dir/open.infer" --input-value=x:1
expect 1 "input-value: the network has no input 'z'" "$wconv" \
    "$dir/open.infer" -o "$dir/open.infer" --input-value=z:1
expect 1 "input-value takes numbers such as" "$wconv" "$dir/open.infer" \
    -o "$dir/open.infer" --input-value=x:1x
expect 1 "input-value takes the value of an input only once" "$wconv" \
    "$dir/open.infer" -o "$dir/open.infer" --input-value=x:1 --input-value=x:2
expect 0 . "$wconv" "$dir/open.infer" -o "$dir/open.infer"
expect 1 "shape of input 'x' open: name one" "$infer" -m "$dir/open.infer" --bench
expect 0 'batch 3,' "$infer" -m "$dir/open.infer" --bench --duration=0 \
    --input-shape=3x5
for type in U8:8 F32:2097152; do
    cat >"$dir/side.infer" <<END
{"infer": 1, "inputs": [{"name": "x", "dtype": "${type%:*}",
                         "shape": [-1, 1, ${type#*:}, 1]}],
 "nodes": [], "outputs": ["x"]}
END
    expect 0 . "$wconv" "$dir/side.infer" -o "$dir/side.infer"
    expect 1 'takes U8\|a side of 2097152 pixels' "$infer" \
        -m "$dir/side.infer" "$pictures/3.png"
done

# An input of free size takes the whole picture as it is resized; one that
# would become too large is named.
cat >"$dir/free.infer" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32",
                         "shape": [-1, 1, -1, -1]}],
 "nodes": [], "outputs": ["x"]}
END
expect 0 . "$wconv" "$dir/free.infer" -o "$dir/sized.infer" --resize=56
expect 0 'shown as 3136 classes' "$infer" -m "$dir/sized.infer" --task=classify \
    "$pictures/3.png"
expect 0 . "$wconv" "$dir/free.infer" -o "$dir/sized.infer" --resize=letterbox
expect 0 'shown as 12544 classes' "$infer" -m "$dir/sized.infer" --task=classify \
    "$pictures/3.png"
expect 0 . "$wconv" "$dir/free.infer" -o "$dir/sized.infer" --resize=65536
expect 2 '3.png: a picture of 112 x 112 pixels would' "$infer" \
    -m "$dir/sized.infer" "$pictures/3.png" "$pictures/4.png"
expect 3 'rtol: weights of 16 bits' "$wconv" "$model" -o "$dir/half.infer" \
    --dtype=bf16 --verify

# Names that differ make files that do.
cat >"$dir/names.infer" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32", "shape": [-1, 4]}],
 "nodes": [{"name": "r\u001b\"", "op": "unary", "attr": {"kind": "relu"},
            "in": ["x"], "out": ["y/0"]},
           {"name": "a", "op": "unary", "attr": {"kind": "abs"}, "in": ["x"],
            "out": ["y:0"]}], "outputs": ["y/0", "y:0"]}
END
expect 0 . "$wconv" "$dir/names.infer" -o "$dir/names.infer"
expect 0 '^$' sh -c "'$infer' -m '$dir/names.infer' \
    --dump-layers='$dir/d.infer' --export-output='$dir/e.infer' && echo"
expect 0 '^2$' sh -c "ls '$dir/e.infer' | grep -c 'y_0.npy'"
expect 0 'tooltip="r.x1B.""' "$wconv" inspect --dot "$dir/names.infer"

# ---- names that are no UTF-8 or hold a line's end; one document of JSON
odd=$(printf 'caf\351.png')
cp "$pictures/3.png" "$dir/$odd"
cp "$pictures/3.png" "$dir/a
b.png"
expect 0 'caf.xE9.png$' "$infer" -m "$model" "$dir/$odd"
expect 0 'a.x0Ab.png$' "$infer" -m "$model" "$dir/a
b.png"
expect 0 'caf..xE9.png"' "$infer" -m "$model" --json "$dir/$odd"
rm "$dir/$odd" "$dir/a
b.png"
expect 0 '^{$' "$infer" -m "$model" --json --profile --report-memory \
    --report-load-time "$pictures/3.png"
for word in '"pictures":' '"layers":' '"memory":' '"load_time":' '^}$'; do
    expect 0 "$word" "$infer" -m "$model" --json --profile --report-memory \
        --report-load-time "$pictures/3.png"
done
expect 1 '^0$' sh -c "'$infer' -m '$model' --bench --duration=1ms --json \
    --profile --report-memory --report-load-time | grep -c '^[^	{}]'"
expect 0 '"tensors":' "$infer" -m "$model" --compare=ref --layers --json
expect 3 '"first":.*"r1"' "$infer" -m "$model" --compare=ref --layers --json \
    --atol=0 --rtol=0

# ---- options that would have no effect
expect 1 "compare takes .*not ''" "$infer" -m "$model" --compare=
expect 1 "not 'magic'" "$infer" -m "$model" --compare=ref,magic
expect 1 'not on pictures' "$infer" -m "$model" --bench "$pictures"
expect 1 'layers goes with --compare' "$infer" -m "$model" --layers "$pictures"
expect 1 'rtol go with --compare' "$infer" -m "$model" --atol=1 "$pictures"
for option in --warmup=1s --duration=1s --percentile=50 --include-transfers \
    --streams=2 --rate=9 --histogram --compare-with=x; do
    expect 1 'go with --bench' "$infer" -m "$model" $option "$pictures"
done
expect 1 'topk is for pictures' "$infer" -m "$model" --bench -k1
for files in '' , image: "image:$dir/layers/0000-image.npy,"; do
    expect 1 'load-inputs takes files' "$infer" -m "$model" --bench \
        --load-inputs="$files"
done
expect 1 'rtol go with --verify' "$wconv" "$weights" "$arch" -o "$dir/y" --rtol=1
absent "$dir/y"

# ---- every option of --help stands in the manual page
for tool in infer wconv kbench train; do
    page=$(sed 's/\\-/-/g' "$src/tools/man/$tool.1")
    for option in $("$here/$tool" --help | grep -o '^ *\(-., \)\?--[a-z0-9-]*' |
        grep -o -e '--[a-z0-9-]*'); do
        count=$((count + 1))
        case $page in
        *"$option"*) ;;
        *) fail "$tool.1 has no $option" ;;
        esac
    done
done

# ---- too large for any machine
expect 2 'TiB of tensors, but this machine has' "$here/kbench" conv -n100000 \
    -c4096 -H4096 -k4096 -R3

# ---- files that are no weights are named
printf '<!DOCTYPE html>\n' >"$dir/page.onnx"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' >"$dir/lfs.pth"
gzip -c "$weights" >"$dir/weights.gz"
expect 2 'page.onnx: an HTML page: ' "$wconv" "$dir/page.onnx" -o "$dir/y"
expect 2 'lfs.pth: a pointer of Git LFS: ' "$wconv" "$dir/lfs.pth" -o "$dir/y"
expect 2 'weights.gz: a gzip file: ' "$wconv" "$dir/weights.gz" -o "$dir/y"
expect 2 '7.png: a picture, ' "$wconv" "$pictures/7.png" -o "$dir/y"
expect 1 'one input file, or a network .*other commands: wconv inspect' "$wconv" inspekt x
rm "$dir/page.onnx" "$dir/lfs.pth" "$dir/weights.gz"
absent "$dir/y"

# ---- what is read is not overwritten, by whatever name
cp "$weights" "$dir/kept.infer"
ln -s kept.infer "$dir/linked.infer"
for f in kept linked; do
    expect 1 "$f.infer: the conversion reads this file" "$wconv" \
        "$dir/kept.infer" "$arch" -o "$dir/$f.infer"
done
cp "$src/samples/digits/digits.json" "$dir/arch.infer"
expect 1 'reads this file' "$wconv" "$weights" --arch="$dir/arch.infer" \
    -o "$dir/arch.infer"
expect 0 '^$' sh -c "cmp '$weights' '$dir/kept.infer' && echo"
expect 0 '^$' sh -c "cmp '$src/samples/digits/digits.json' '$dir/arch.infer' &&
    echo"
expect 1 'export-output is for arrays' "$infer" -m "$model" "$pictures" \
    --export-output="$dir/y.npy"
expect 1 'do not go with --compare' "$infer" -m "$model" --compare=ref --profile
absent "$dir/y.npy"
cp "$model" "$dir/own.infer"
cp "$pictures/3.png" "$dir/own.png.infer"
expect 1 'own.infer: the run reads this file: .* --profile' "$infer" \
    -m "$dir/own.infer" --bench --duration=0 --profile="$dir/./own.infer"
expect 1 'own.png.infer: the run reads this file' "$infer" -m "$model" \
    "$dir/own.png.infer" --profile="$dir/own.png.infer"
expect 0 '^$' sh -c "cmp '$model' '$dir/own.infer' &&
    cmp '$pictures/3.png' '$dir/own.png.infer' && echo"

# ---- a file that is there keeps its place and its permissions; what cannot be
# written leaves it as it was
ln -s own.infer "$dir/link.infer"
chmod 600 "$dir/own.infer"
expect 0 . "$wconv" "$model" -o "$dir/link.infer" --name=linked
expect 0 '^lrwx' ls -l "$dir/link.infer"
expect 0 '^-rw-------' ls -l "$dir/own.infer"
expect 0 '^name *linked' "$wconv" inspect "$dir/own.infer"
ln -s nowhere "$dir/loose.infer"
expect 2 'loose.infer: cannot follow this link' "$wconv" "$model" \
    -o "$dir/loose.infer"
run="-m $model --dump-layers=$dir/layers --profile"
mkdir "$dir/p.infer"
printf 'old\n' >"$dir/p.infer/p"
expect 0 'p: cannot write' sh -c "(ulimit -f 0; trap '' XFSZ
    '$infer' -m '$model' --bench --duration=0 --profile='$dir/p.infer/p') 2>&1 |
    cat"
expect 0 '^old' cat "$dir/p.infer/p"
expect 0 '^p$' ls "$dir/p.infer"
# shellcheck disable=SC2086
expect 0 '"op"' sh -c "'$infer' $run=/dev/stdout | cat"
# shellcheck disable=SC2086
expect 2 '/dev/full: ' "$infer" $run=/dev/full
expect 2 'nowhere/x: ' "$infer" -m "$dir/missing" --bench --duration=1m \
    --profile="$dir/nowhere/x"
# A preset resizes by the size of the input.
expect 0 'shorter side 18 .*centre crop 16x16' "$wconv" \
    "$src/tests/data/seed_graph.pb" -o "$dir/y.infer" --preset=imagenet
expect 0 'shorter side 20 .*centre crop 16x16' "$wconv" \
    "$src/tests/data/seed_graph.pb" -o "$dir/y.infer" --preset=caffe --resize=20
expect 1 'resize=12: a shorter side below' "$wconv" \
    "$src/tests/data/seed_graph.pb" -o "$dir/y.infer" --resize=12
# Names of files and folders: empty, or those of another kind.
expect 1 "labels takes the name of a file or folder, not ''" "$infer" \
    -m "$model" --labels= "$pictures/7.png"
expect 2 'list is a file: results go into a folder' "$infer" -m "$model" \
    --dump-layers="$dir/list" "$pictures/7.png"
grep -q seven "$dir/out" && fail "a result was printed before the failure"
expect 2 'nowhere/x.npy: ' "$infer" -m "$dir/missing" --dump-layers="$dir/z" \
    --export-output="$dir/nowhere/x.npy"
expect 2 'layers: Is a directory' "$infer" -m "$model" --bench --duration=1m \
    --profile="$dir/layers"
mkfifo "$dir/pipe.infer"
expect 0 'not written: .*pipe.infer' "$infer" -m "$model" --bench --duration=0 \
    --tune=exhaustive --tune-cache="$dir/pipe.infer"

# ---- usage
for pair in ReLU=unary max_pool=pool Linear=dense conv2d=conv BatchNorm2d=batch_norm \
    mul=binary; do
    sed "s/\"op\": \"flatten\"/\"op\": \"${pair%=*}\"/" \
        "$src/tests/arch/tiny.json" >"$dir/hint.json"
    expect 2 "it is \"op\": \"${pair#*=}\"" "$wconv" inspect "$dir/hint.json"
done
sed 's/"op": "flatten"/"op": "flaten"/' "$src/tests/arch/tiny.json" \
    >"$dir/hint.json"
expect 2 "did you mean 'flatten'" "$wconv" inspect "$dir/hint.json"
# Shapes: N is the batch alone; the graph for Graphviz has inputs and outputs.
expect 0 '^  v[0-9]* .*label="image Nx1x14x14"' "$wconv" inspect --dot \
    "$src/tests/arch/tiny.json"
expect 0 '^  o[0-9]* .*label="scores Nx10"' "$wconv" inspect --dot \
    "$src/tests/arch/tiny.json"
expect 0 'label="conv 8x1x3x3 stride=2 pad=1 +relu"' "$wconv" inspect --dot \
    "$src/tests/arch/tiny.json"
# No line of --help is wider than a terminal, and none of a narrow one's tables.
for tool in "$wconv" "$infer" "$here/kbench"; do
    "$tool" --help | awk 'length > 80 { exit 1 }' ||
        fail "$tool --help: a line of more than 80 columns"
done
COLUMNS=80 "$infer" -m "$model" --bench --duration=20ms --profile -q |
    awk '/^ *[0-9#]/ && length > 80 { exit 1 }' || fail 'wide --profile'
expect 0 '^.*digits.infer: .* threads*, backend auto, fp32, libinfer' "$infer" \
    -m "$model" --bench --duration=20ms --threads=2
expect 0 ', p99 -, ' "$infer" -m "$model" --bench --duration=1ms --warmup=0
"$infer" -m "$model" --bench --duration=60s >"$dir/cut" 2>/dev/null &
pid=$!
sleep 1
kill -INT $pid
wait $pid
[ $? = 130 ] || fail '^C did not end --bench with 130'
grep -q '^batch 1, .* runs' "$dir/cut" || fail '--bench lost what it measured'
rm -f "$dir/cut" "$dir/hint.json"
# ---- the page of a network: complete in itself, no markup from names
page=$dir/page.html
"$infer" -m "$model" "$src/samples/digits/images/7.png" \
    --profile="$dir/profile.json" >/dev/null
"$wconv" inspect "$model" --html="$page" --profile="$dir/profile.json" ||
    fail 'no page of a model'
expect 0 '"name":"fc".*"ms":[0-9.e-]*,"kernel":"' cat "$page"
expect 0 '"bins":\[[0-9]' cat "$page"
grep -qE 'src=|href=|https?:|@import|url\(' "$page" &&
    fail 'the page fetches something'
sed 's/"tiny"/"<\/script><script>x"/' "$src/tests/arch/tiny.json" \
    >"$dir/evil.json"
"$wconv" inspect "$dir/evil.json" --html="$page" || fail 'no page of a graph'
[ "$(grep -c '</script>' "$page")" = 2 ] || fail 'a name became markup'
"$wconv" inspect "$weights" --html="$page" 2>/dev/null && fail 'a page of no graph'
expect 1 'profile goes with --html' "$wconv" inspect "$model" --profile="$page"
expect 2 'holds no layers' "$wconv" inspect "$model" --html="$page" \
    --profile="$dir/evil.json"
expect 1 'this file is read' "$wconv" inspect "$model" --html="$model"
expect 1 'forms of the answer' "$wconv" inspect "$model" --html="$page" --dot
# In a browser, where there is one: the script runs and draws every node.
if command -v chromium >/dev/null; then
    "$wconv" inspect "$src/tests/data/seed_model.keras" --html="$page"
    for text in 'As read' 'After the passes' 'What the passes changed' \
        'fold-batch-norm' '<svg viewBox'; do
        expect 0 "$text" chromium --headless --no-sandbox --disable-gpu \
            --user-data-dir="$dir/browser" --dump-dom "file://$page"
    done
    # A point of the roofline has the name of its layer.
    "$here/kbench" -q -m lenet5 --backends=onednn,cpu,ref --rounds=3 \
        --time-limit=0.1s --html="$page"
    for text in 'lenet5, batch 1' '<text[^>]*>conv2<' 'kbench -q -m lenet5'; do
        expect 0 "$text" chromium --headless --no-sandbox --disable-gpu \
            --user-data-dir="$dir/browser" --window-size=420,900 \
            --dump-dom "file://$page"
    done
    rm -rf "$dir/browser"
fi
rm -f "$page" "$dir/profile.json" "$dir/evil.json"
# Completion reads the options and their words from --help.
completes() {
    expect 0 "$1" bash -c ". '$src/tools/completion/libinfer.bash'
        PATH=$here:\$PATH COMP_WORDS=($2) COMP_CWORD=$3
        _libinfer 2>/dev/null; echo \"=\${COMPREPLY[*]}=\""
}
if command -v bash >/dev/null; then
    completes '^=--tune= --tune-cache==$' 'infer --tun' 1
    completes '^=on off=$' 'infer --tune = o' 3
    completes '^=--profile=$' 'infer --prof' 1
    completes '^=--keep-bn=$' 'wconv --keep-b' 1
    completes '--keep-training' 'wconv --keep' 1
    completes '^=inspect=$' 'wconv ins' 1
    completes '^=nhwc nchw=$' 'kbench --layout =' 2
fi
expect 0 '^conv_fprop_nhwc_f32_onednn *onednn *F32\|^conv' "$here/kbench" \
    --list-kernels
expect 0 '^[a-z0-9_]* *ref ' "$here/kbench" --list-kernels --backends=ref
grep -q ' onednn ' "$dir/out" && fail '--list-kernels: not only those asked for'
expect 1 'no such kernel' "$here/kbench" --list-kernels --kernels='xyz*'
expect 1 'a dense layer has no window' "$here/kbench" dense \
    --problem=g32mb128ic128ih56oc128kh3ph1
expect 1 'one operation at a time' "$here/kbench" conv dense \
    --problem=mb1ic8oc8
expect 1 'no input file' "$wconv"
expect 1 'no output file' "$wconv" "$weights"
expect 1 "did you mean '--output'" "$wconv" "$weights" --outptu=x
expect 1 "did you mean '--threads'" "$infer" --thread5=2
expect 1 'needs a value' "$wconv" "$weights" -o
expect 1 'takes no value' "$wconv" "$weights" --keep-bn=1
expect 1 'opt-level' "$wconv" "$weights" -o "$dir/x" -O7
expect 1 'disable-pass' "$wconv" "$weights" -o "$dir/x" --disable-pass=nonsense
expect 1 'no model' "$infer" "$pictures"
expect 1 'nothing to run' "$infer" -m "$model"
expect 1 'backend' "$infer" -m "$model" --backend=magic --bench
expect 0 'usage: wconv' "$wconv" --help
expect 0 'libinfer' "$infer" --version
absent "$dir/x"

# ---- bad input: exit 2, one line that names the file, nothing written
printf 'not a \001 model' >"$dir/bad"
: >"$dir/empty"
head -c 60000 "$weights" >"$dir/short.safetensors"
mkdir "$dir/folder"
for f in "$dir/bad" "$dir/empty" "$dir/short.safetensors" "$dir/folder" \
    "$dir/missing" /dev/null; do
    expect 2 "$f" "$wconv" "$f" -o "$dir/y"
    absent "$dir/y"
    expect 2 "$f" "$infer" -m "$f" --bench
    expect 2 "$f" "$kbench" -m "$f"
done
expect 2 "$dir/nowhere" "$wconv" "$weights" "$arch" -o "$dir/nowhere/y"
expect 2 "$dir/bad" "$infer" -m "$model" "$dir/bad"
expect 2 "$dir/missing" "$infer" -m "$model" "$dir/missing"
expect 2 'empty: the file is empty' "$infer" -m "$model" "$dir/empty"
expect 2 'no PNG or JPEG pictures' "$infer" -m "$model" "$dir/folder"
x=$dir/layers/0000-image.npy
expect 0 '"scores"' "$infer" -m "$model" --load-inputs="image:$x" -b1
expect 1 'holds a batch of 1, --batch is 4' "$infer" -m "$model" \
    --load-inputs="$x" -b4
expect 1 "two files for input 'image'" "$infer" -m "$model" \
    --load-inputs="$x,image:$x"
cp "$x" "$dir/layers/x.npy"
# Names with colons, as TensorFlow has them, and paths with colons.
cp "$x" "$dir/layers/a:b.npy"
sed 's/"image"/"serving_x:0"/' "$src/samples/digits/digits.json" \
    >"$dir/layers/colon.json"
expect 0 . "$wconv" "$weights" --arch="$dir/layers/colon.json" -o "$dir/colon.infer"
for load in "serving_x:0:$x" "serving_x:0:$dir/layers/a:b.npy" \
    "$dir/layers/a:b.npy"; do
    expect 0 '"scores"' "$infer" -m "$dir/colon.infer" --load-inputs="$load"
done
expect 1 "no input 'serving_x'" "$infer" -m "$dir/colon.infer" \
    --load-inputs="serving_x:$x"
expect 0 'images/s' "$infer" -m "$dir/colon.infer" --bench --duration=10ms \
    --input-shape=serving_x:0:1x1x28x28
expect 0 . "$wconv" "$dir/colon.infer" -o "$dir/colon.infer" \
    --input-shape=serving_x:0:1x1x28x28
expect 1 'x.npy: the run reads this file' "$infer" -m "$model" \
    --load-inputs="$dir/layers/x.npy" --export-output="$dir/layers/x.npy"
expect 0 '^$' sh -c "cmp '$x' '$dir/layers/x.npy' && echo"
expect 1 "no input 'nope' (the first: 'image')" "$infer" -m "$model" \
    --load-inputs="nope:$dir/layers/0000-image.npy"
expect 1 "no input 'nope'" "$infer" -m "$model" --input-shape=nope:1x1x28x28 \
    --bench
head -c 300 "$pictures/3.png" >"$dir/short.png"
expect 2 "$dir/short.png" "$infer" -m "$model" "$dir/short.png"
head -c 20000 "$model" >"$dir/short.infer"
expect 2 "$dir/short.infer" "$infer" -m "$dir/short.infer" --bench
head -c 500 "$model" >"$dir/short.infer"
expect 2 'cut short: a header of' "$infer" -m "$dir/short.infer" --bench
expect 2 '3.png: not a model file; wconv makes one' "$infer" -m "$pictures/3.png" \
    --bench
expect 4 'cuda' "$infer" -m "$model" --device=cuda:0 --bench
expect 4 'cudnn: not usable on device cpu, only on cuda' "$infer" -m "$model" \
    --backend=cudnn --bench
expect 3 'verification failed' "$wconv" "$weights" "$arch" -o "$dir/y" --verify \
    --atol=0 --rtol=0
absent "$dir/y"

# ---- labels, means and batches that cannot be meant
printf 'zero\none\n' >"$dir/labels"
for f in empty bad folder; do
    expect 2 "$dir/$f: " "$wconv" "$weights" "$arch" -o "$dir/y" \
        --labels="$dir/$f"
    expect 2 "$dir/$f: " "$infer" -m "$model" --labels="$dir/$f" \
        "$pictures/3.png"
done
expect 2 'empty: the file holds no labels' "$wconv" "$weights" "$arch" \
    -o "$dir/y" --labels="$dir/empty"
expect 2 'bad: labels' "$infer" -m "$model" --labels="$dir/bad" \
    "$pictures/3.png"
expect 0 'one' "$infer" -m "$model" --labels="$dir/labels" "$pictures/1.png"
expect 0 'note: 2 labels for 10 classes' "$infer" -m "$model" \
    --labels="$dir/labels" "$pictures/1.png"
expect 1 '^0$' sh -c "'$infer' -m '$model' '$pictures/1.png' 2>&1 | grep -c note"
for option in mean std; do
    expect 1 "has 3 values, but input 'image' has 1 channel" "$wconv" "$weights" \
        "$arch" -o "$dir/y" --$option=1,2,3
done
expect 1 "has 3 values, but input 'image' has 1 channel" "$wconv" "$weights" \
    "$arch" -o "$dir/y" --preset=imagenet
expect 1 "input 'image' is 28x28" "$wconv" "$weights" "$arch" -o "$dir/y" \
    --resize=32 --crop=24
expect 1 'crop takes a size' "$wconv" "$weights" "$arch" -o "$dir/y" --crop=0
expect 1 'crop goes with' "$wconv" "$weights" "$arch" -o "$dir/y" --crop=28 \
    --resize=letterbox
absent "$dir/y"
expect 0 . "$wconv" "$weights" "$arch" -o "$dir/crop.infer" --scale=1/255 \
    --resize=28 --crop=28x28
expect 0 "% *7 " "$infer" -m "$dir/crop.infer" -k1 "$pictures/7.png"
expect 0 . "$wconv" "$weights" "$arch" -o "$dir/mean.infer" --mean=0.1 --std=2 \
    --scale=1/255
cat >"$dir/relu.infer" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32", "shape": [-1, 3, 9999, 9999]}],
 "nodes": [{"name": "r", "op": "unary", "attr": {"kind": "relu"},
            "in": ["x"], "out": ["y"]}], "outputs": ["y"]}
END
expect 0 . "$wconv" "$dir/relu.infer" -o "$dir/relu.infer"
expect 2 'batch of 1048576: .* TiB are needed' "$infer" -m "$dir/relu.infer" \
    --bench -b 1048576
expect 0 '3.png' "$infer" -m "$model" -b 1048576 "$pictures/3.png"

# ---- standard streams: full, closed
if [ -w /dev/full ]; then
    expect 2 'standard output: ' sh -c "'$infer' --doctor >/dev/full"
    expect 2 'standard output: ' sh -c "'$wconv' inspect '$model' >/dev/full"
fi
expect 2 'standard output: ' sh -c "'$infer' -m '$model' '$pictures' >&-"
expect 0 '^$' sh -c "'$wconv' '$weights' '$arch' -o '$dir/closed.infer' \
    <&- >&- 2>&-; echo"
expect 0 '^$' sh -c "'$wconv' diff '$model' '$dir/closed.infer' && echo"

# ---- architectures and networks are told apart
expect 2 'resnet18: an architecture without weights' "$wconv" resnet18 \
    -o "$dir/y"
expect 1 'a network of its own: --arch' "$wconv" "$model" --arch=lenet5 \
    -o "$dir/y"
expect 1 "no format is named 'mxnet'" "$wconv" "$model" --from=mxnet \
    -o "$dir/y"
expect 1 "output takes the name of a file" "$wconv" "$weights" "$arch" -o ''
absent "$dir/y"

# ---- what training goes on with
expect 0 . "$wconv" "$weights" "$arch" -o "$dir/kept.infer" --keep-training
expect 0 'batch_norm' "$wconv" inspect --layers "$dir/kept.infer"
expect 1 '^0$' sh -c "'$wconv' inspect --layers '$model' | grep -c batch_norm"
expect 0 "% *7 " "$infer" -m "$dir/kept.infer" -k1 "$pictures/7.png"

# ---- results that show nothing
cat >"$dir/nan.infer" <<'END'
{"infer": 1, "inputs": [{"name": "x", "dtype": "F32", "shape": [-1, 4]}],
 "nodes": [{"name": "e", "op": "unary", "attr": {"kind": "exp"}, "in": ["x"],
            "out": ["e"]},
           {"name": "n", "op": "unary", "attr": {"kind": "neg"}, "in": ["e"],
            "out": ["n"]},
           {"name": "l", "op": "unary", "attr": {"kind": "log"}, "in": ["n"],
            "out": ["y"]}], "outputs": ["y"]}
END
expect 3 'verification shows nothing' "$wconv" "$dir/nan.infer" -o "$dir/y" \
    --verify
absent "$dir/y"
expect 0 . "$wconv" "$dir/nan.infer" -o "$dir/nan.infer"
expect 3 'no output against ref holds a finite number' "$infer" \
    -m "$dir/nan.infer" --compare=ref

# ---- options that find nothing to change
for option in --src-layout=nhwc --dense-order=hwc; do
    expect 1 'src-layout and --dense-order are for bare' "$wconv" "$model" \
        -o "$dir/y" $option
done
expect 1 'bn-eps: .* has no batch norm' "$wconv" "$model" -o "$dir/y" --bn-eps=1
absent "$dir/y"
expect 0 . "$wconv" "$weights" "$arch" -o "$dir/again.infer" --bn-eps=1
expect 3 '^! conv1.weight' "$wconv" diff "$model" "$dir/again.infer"

# ---- a model is converted once more as what it was made from would be
for option in -O0 --keep-bn; do
    expect 0 . "$wconv" "$weights" "$arch" -o "$dir/kept.infer" $option
    expect 0 'batch_norm' "$wconv" inspect --layers "$dir/kept.infer"
    expect 0 'fold-batch-norm' "$wconv" "$dir/kept.infer" \
        -o "$dir/again.infer" --verify
    expect 0 '^$' sh -c "'$wconv' diff '$model' '$dir/again.infer' && echo"
done
expect 0 . "$wconv" "$model" -o "$dir/again.infer" --dtype=fp16
expect 0 '^conv1.weight *F16' "$wconv" inspect --weights "$dir/again.infer"
expect 0 "% *7 " "$infer" -m "$dir/again.infer" -k1 "$pictures/7.png"

# ---- photographs, where the data is
if [ -n "${TEST_DATA-}" ]; then
    squeeze=$TEST_DATA/weights/onnx-winml/SqueezeNet_fp16.onnx
    labels=$TEST_DATA/photos/labels/synset_words.txt
    photos=$TEST_DATA/photos
    expect 0 . "$wconv" "$squeeze" -o "$dir/squeeze.infer" --preset=caffe \
        --labels="$labels" --verify
    expect 0 'Granny Smith' "$infer" -m "$dir/squeeze.infer" -k1 \
        "$photos/ILSVRC2012_val_00000023.JPEG"
    expect 0 'junco' "$infer" -m "$dir/squeeze.infer" -k1 \
        "$photos/ILSVRC2012_val_00000247.JPEG"
    expect 0 'hummingbird' "$infer" -m "$dir/squeeze.infer" -k1 \
        "$photos/winml-hummingbird.jpg"
    expect 0 ' cat\| tabby' "$infer" -m "$dir/squeeze.infer" -k1 \
        "$photos/onnx-tutorials-cat.jpg"
    expect 0 ' cat\| tabby' "$infer" -m "$dir/squeeze.infer" -k1 \
        "$photos/caffe-cat.jpg"
else
    echo "photographs are skipped: TEST_DATA is not set"
fi

ls "$dir" | grep -v -x -e out -e '.*\.infer' -e layers -e list -e bad \
    -e empty -e short.safetensors -e short.png -e folder -e labels \
    -e page.jpg -e root.json -e roots -e seven.png && {
    fail "temporary files were left behind"
}
report
