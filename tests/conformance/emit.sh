#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wconv --emit-c: files of several formats become C99 that compiles without a
# warning, calls no function but those of libm and of memory, and gives the bits
# of the reference backend, on this machine, as a program of 32 bits, and on a
# Cortex-M under qemu.  Run by make check; without a C compiler it skips.
. "${srcdir:-.}/tests/conformance/expect.sh"

wconv=$here/wconv
infer=$here/infer
cc=${CC:-cc}
strict='-std=c99 -pedantic -Wall -Wextra -Werror'
weights=$src/samples/digits/digits.safetensors
arch=--arch=$src/samples/digits/digits.json
$cc --version >/dev/null 2>&1 || {
    echo "no C compiler"
    exit 77
}

# compile COMPILER ARGUMENT...: without a word.
compile() {
    count=$((count + 1))
    "$@" >"$dir/out" 2>&1 && ! [ -s "$dir/out" ] && return
    fail "$*"
    head -n 5 "$dir/out"
}

# ---- words and exit codes
expect 0 'digits.c: 7 calls of 5 functions' "$wconv" "$weights" "$arch" \
    --emit-c="$dir/digits.c"
expect 0 '^/\* Pictures: exact size .*gray, scale 1/255 (stored)' \
    cat "$dir/digits.h"
expect 0 'digits.infer: 8 nodes' "$wconv" "$weights" "$arch" \
    -o "$dir/digits.infer" --emit-c="$dir/digits.c"
expect 0 '"arena_bytes"' "$wconv" "$weights" "$arch" --emit-c="$dir/again.c" \
    --json
expect 1 'ends in .c' "$wconv" "$weights" "$arch" --emit-c="$dir/x.h"
absent "$dir/x.h"
expect 2 'cumulate): no form in C' "$wconv" "$src/tests/data/seed_select.pb" \
    --emit-c="$dir/x.c"
absent "$dir/x.c"
expect 2 'approximate multiplier' "$wconv" "$weights" "$arch" \
    --multiplier=drum-4 --emit-c="$dir/x.c"

# The model cannot be written: no C either, and the C before stays.
cp "$dir/digits.c" "$dir/before.c"
for name in x digits; do
    expect 2 'cannot create a file' "$wconv" "$weights" "$arch" -O0 \
        -o "$dir/none/x.infer" --emit-c="$dir/$name.c"
done
absent "$dir/x.c"
absent "$dir/x.h"
cmp -s "$dir/digits.c" "$dir/before.c" || fail "the C of a failed run is kept"

# ---- the network beside infer's reference backend
cat >"$dir/main.c" <<'END'
#include <stdio.h>
#include "digits.h"
int main(void)
{
    static float in[DIGITS_IN_SIZE], out[DIGITS_OUT_SIZE];
    if (fread(in, sizeof in, 1, stdin) != 1)
        return 1;
    digits_run(in, out);
    return fwrite(out, sizeof out, 1, stdout) != 1;
}
END
compile $cc $strict -O2 -o "$dir/digits" "$dir/main.c" "$dir/digits.c" -lm
# 784 numbers of four equal bytes, as they are and behind the head of a .npy.
head -c 3136 /dev/zero | tr '\0' '?' >"$dir/in.raw"
{
    printf '\223NUMPY\001\000v\000'
    printf '%-117s\n' \
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 28, 28), }"
    cat "$dir/in.raw"
} >"$dir/in.npy"
compile "$infer" -q -m "$dir/digits.infer" --backend=ref \
    --load-inputs="$dir/in.npy" --export-output="$dir/out.npy"
"$dir/digits" <"$dir/in.raw" >"$dir/out.raw" || fail "digits ended badly"
tail -c 40 "$dir/out.npy" | cmp - "$dir/out.raw" ||
    fail "other bits than infer's"
count=$((count + 1))

# ---- seeds of every format: self-tests, and what the object asks of others
i=0
for f in seed_net.onnx seed_model.keras seed_model.h5 seed_net.tflite \
    seed_half.tflite seed_graph.pb seed_pixels.keras seed_int8.tflite; do
    i=$((i + 1))
    expect 0 'functions' "$wconv" "$src/tests/data/$f" --emit-c="$dir/net$i.c"
    compile $cc $strict -O2 -DNET${i}_TEST -o "$dir/net$i" "$dir/net$i.c" -lm
    expect 0 'the bits of the reference' "$dir/net$i"
done
# Integers of 8 bits.
expect 0 'functions' "$wconv" "$weights" "$arch" --emit-c="$dir/net9.c" \
    --quantize=int8 --calibrate="$src/samples/digits/images"
compile $cc $strict -O2 -DNET9_TEST -o "$dir/net9" "$dir/net9.c" -lm
expect 0 'the bits of the reference' "$dir/net9"
count=$((count + 1))
grep -q 'int8_t \*w' "$dir/net9.c" || fail "no layer on integers of 8 bits"
compile $cc $strict -O2 -DDIGITS_TEST -o "$dir/test" "$dir/digits.c" -lm
expect 0 'the bits of the reference' "$dir/test"
compile $cc $strict -O2 -DDIGITS_TEST -DDIGITS_REAL=float -o "$dir/test" \
    "$dir/digits.c" -lm
expect 2 'other bits' "$dir/test"
# The self-test must be able to fail: one weight is another number.
sed '/static const float c[0-9]/,/}/s/[0-9]f,/9e9f,/' "$dir/digits.c" >"$dir/bad.c"
compile $cc -std=c99 -I"$dir" -DDIGITS_TEST -o "$dir/test" "$dir/bad.c" -lm
expect 1 'other bits' "$dir/test"
if command -v nm >/dev/null; then
    compile $cc -std=c99 -O2 -c -o "$dir/digits.o" "$dir/digits.c"
    count=$((count + 1))
    nm -u "$dir/digits.o" | grep -v -e ' mem[a-z]*$' -e ' _GLOBAL_OFFSET' \
        -e ' __stack_chk_fail' >"$dir/open" && fail "open: $(cat "$dir/open")"
fi

# ---- other machines
if echo 'int main(void){return 0;}' >"$dir/e.c" &&
    $cc -m32 -o "$dir/e" "$dir/e.c" 2>/dev/null && "$dir/e"; then
    for i in 1 2 3 4 5 6 7 8 9; do
        compile $cc $strict -m32 -msse2 -mfpmath=sse -O2 -DNET${i}_TEST \
            -o "$dir/net$i" "$dir/net$i.c" -lm
        expect 0 'the bits of the reference' "$dir/net$i"
    done
else
    echo "no programs of 32 bits here: not tried"
fi
arm=arm-none-eabi-gcc
board=$src/tests/cortex_m4/board
qemu='qemu-system-arm -nographic -semihosting-config enable=on,target=native'
if command -v $arm >/dev/null && command -v qemu-system-arm >/dev/null; then
    for i in 1 2 3 4 5 6 7 8 9; do
        compile $arm $strict -O2 -mcpu=cortex-m4 -mfloat-abi=hard \
            -mfpu=fpv4-sp-d16 -specs=rdimon.specs -nostartfiles \
            -T "$board.ld" -DNET${i}_TEST -o "$dir/net$i.elf" \
            "$dir/net$i.c" "$board.c" -lm
        expect 0 'the bits of the reference' timeout 60 $qemu -M mps2-an386 \
            -kernel "$dir/net$i.elf"
    done
else
    echo "no arm-none-eabi-gcc or qemu-system-arm here: Cortex-M is not tried"
fi
report
