#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The rows of the CPU as machines with narrower vectors run them: checkkern
# with AVX-512 out of reach, then with AVX2; those for integers of 8 bits without
# tiles (AMX) as well.  Skipped where the build lacks the rows.  Fewer random
# problems than of the widest vectors are drawn, since the code is one in other
# vectors; with the sanitizers the listed ones are left to the plain build.
checkkern=tests/checkkern/checkkern
status=77
few=--count=8
grep -q '^AM_CFLAGS = .*-fsanitize=' Makefile && few='--random-only --count=3'

for isa in avx2 sse41; do
    for backend in cpu onednn; do
        # Rows of vectors support nothing where there are none.
        test "$isa $backend" = 'sse41 cpu' && continue
        $checkkern --list --backend=$backend | grep -q . || continue
        $checkkern --isa=$isa --backend=$backend $few || exit 1
        status=0
    done
done
for isa in avx512 sse41; do
    $checkkern --isa=$isa --row='*_[iu]8_cpu_*' $few || exit 1
    status=0
done
exit $status
