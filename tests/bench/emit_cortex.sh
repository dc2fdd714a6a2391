#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# C of wconv --emit-c beside that of onnx2c and emx-onnx-cgen on a Cortex-M4: bytes
# of code (arm-none-eabi-gcc -Os and -O2) and the instructions that one run
# executes (qemu-system-arm -icount on an mps2-an386: SysTick, 40 instructions a
# tick).  Instructions are no cycles: qemu counts none.
#
# usage: emit_cortex.sh WCONV NET.onnx INPUTS OUTPUTS [ONNX2C [EMX]]
# INPUTS and OUTPUTS: numbers of elements.
set -eu
wconv=$1 net=$2 inputs=$3 outputs=$4
here=$(cd "$(dirname "$0")" && pwd)
board=$here/../cortex_m4/board
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpu='-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16'

cat >"$work/run.c" <<'END'
#include <stdint.h>
#include <stdio.h>
void CALL();
static float x[INPUTS], y[OUTPUTS];
#define TICK ((volatile uint32_t *)0xE000E010)
int main(void)
{
    double sum = 0;
    for (long i = 0; i < INPUTS; i++)
        x[i] = (float)((i * 2654435761u >> 16) & 0xffff) / 65536 - 0.5f;
    TICK[1] = 0xffffff;
    TICK[2] = 0;
    TICK[0] = 5;
    const uint32_t begin = TICK[2];
    CALL((void *)x, (void *)y);
    const uint32_t ticks = (begin - TICK[2]) & 0xffffff;
    for (long i = 0; i < OUTPUTS; i++)
        sum += y[i];
    printf("%.1f thousand instructions, sum %.6g\n", ticks * 0.04, sum);
    return 0;
}
END

# code FILE OPTION...: bytes.
code() {
    # shellcheck disable=SC2086
    arm-none-eabi-gcc -std=c99 -w $cpu "$@" -c -o "$work/net.o"
    arm-none-eabi-size -A "$work/net.o" |
        awk '$1 ~ /^\.text/ { n += $2 } END { print n }'
}

# measure NAME FILE FUNCTION [OPTION...]
measure() {
    name=$1 file=$2 call=$3
    shift 3
    small=$(code "$file" -Os "$@")
    fast=$(code "$file" -O2 "$@")
    # shellcheck disable=SC2086
    arm-none-eabi-gcc -std=gnu99 -w -O2 $cpu -DINPUTS="$inputs" \
        -DOUTPUTS="$outputs" -DCALL="$call" -specs=rdimon.specs -nostartfiles \
        -T "$board.ld" -o "$work/net.elf" "$work/run.c" "$board.c" \
        "$work/net.o" -lm
    printf '%-13s code %s at -Os, %s at -O2: %s\n' "$name" "$small" "$fast" \
        "$(timeout 300 qemu-system-arm -nographic -icount shift=0 \
            -semihosting-config enable=on,target=native -M mps2-an386 \
            -kernel "$work/net.elf")"
}

. "$here/emit_sources.sh"
