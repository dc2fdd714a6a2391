#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# C of wconv --emit-c beside that of onnx2c and emx-onnx-cgen, from the same ONNX
# file with one float input and output: bytes of text and constants, of static
# memory and of code (gcc -O2), the least and median CPU time of the runs of a
# second, and sums of the output and of its magnitudes.
#
# usage: emit_peers.sh WCONV NET.onnx INPUTS OUTPUTS [ONNX2C [EMX]]
# INPUTS and OUTPUTS: numbers of elements.
set -eu
wconv=$1 net=$2 inputs=$3 outputs=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/run.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
void CALL();
static float x[INPUTS], y[OUTPUTS];
static double t[100000];
static double now(void)
{
    struct timespec s;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &s);
    return s.tv_sec + 1e-9 * s.tv_nsec;
}
static int order(const void *a, const void *b)
{
    const double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}
int main(void)
{
    const double start = now();
    double sum = 0, all = 0;
    int n = 0;
    for (int i = 0; i < INPUTS; i++)
        x[i] = (float)((i * 2654435761u >> 16) & 0xffff) / 65536 - 0.5f;
    while (n < 5 || (now() - start < 1 && n < 100000)) {
        const double begin = now();
        CALL((void *)x, (void *)y);
        t[n++] = now() - begin;
    }
    qsort(t, n, sizeof *t, order);
    for (int i = 0; i < OUTPUTS; i++) {
        sum += y[i];
        all += y[i] < 0 ? -y[i] : y[i];
    }
    printf("%.4g ms, %.4g ms, sum %.7g, %.7g\n", 1e3 * t[0], 1e3 * t[n / 2], sum, all);
    return 0;
}
END

# measure NAME FILE FUNCTION [OPTION...]
measure() {
    name=$1 file=$2 call=$3
    shift 3
    gcc -std=c99 -O2 -w "$@" -c "$file" -o "$work/net.o"
    gcc -O2 -w -DINPUTS="$inputs" -DOUTPUTS="$outputs" -DCALL="$call" \
        "$work/run.c" "$work/net.o" -o "$work/run" -lm
    # shellcheck disable=SC2046
    set -- $(size "$work/net.o" | tail -n 1)
    code=$(size -A "$work/net.o" | awk '$1 ~ /^\.text/ { n += $2 } END { print n }')
    printf '%-13s text+rodata %s, data+bss %s, code %s: %s\n' "$name" "$1" \
        $(($2 + $3)) "$code" "$("$work/run")"
}

. "$here/emit_sources.sh"
