#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The rows of the CPU as machines with narrower vectors run them: checkkern
# with AVX-512 out of reach, then with AVX2.  Skipped where the build lacks the
# rows.
checkkern=tests/checkkern/checkkern
status=77

for isa in avx2 sse41; do
    for row in '*_onednn' '*_cpu_*'; do
        # Rows of vectors support nothing where there are none.
        test "$isa $row" = 'sse41 *_cpu_*' && continue
        $checkkern --list --row="$row" | grep -q . || continue
        $checkkern --isa=$isa --row="$row" || exit 1
        status=0
    done
done
exit $status
