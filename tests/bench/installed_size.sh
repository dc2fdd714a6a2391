#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What has to lie on a machine to run a program, beside the C library and the
# NVIDIA driver: the stripped program and every shared library that it loads.
# cuDNN and cuBLAS are opened only when asked for, and are not needed.
#
# usage: tests/bench/installed_size.sh PROGRAM
set -eu
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
strip -o "$copy" "$1"
{
    stat -c "%s ${1##*/}, stripped" "$copy"
    ldd "$1" | awk '$3 ~ /^\// { print $3 }' |
        grep -v -e '/libc\.so' -e '/libm\.so' |
        while read -r library; do
            stat -L -c "%s ${library##*/}" "$library"
        done
} | awk '{ total += $1; printf "%7.2f MB ", $1 / 1e6; $1 = ""; print }
    END { printf "%7.2f MB  in all\n", total / 1e6 }'
