#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs an analyser over rooms of the sources; any finding fails.
#
# usage: tests/analyze/run.sh cppcheck|clang-tidy|gcc [FOLDER|FILE...]
# The default is what reads files of strangers.  BUILD is a configured folder
# (default build), JOBS the number of processes.  Exit 77 without the analyser.
set -u
cd "$(dirname "$0")/../.." || exit 1
tool=${1-}
[ $# = 0 ] || shift
build=${BUILD:-build}
jobs=${JOBS:-1}
[ $# -gt 0 ] ||
    set -- kernels/base libinfer/graph libinfer/image libinfer/model weights \
        tools/emit tools/train/data
# error.c defines what tests/analyze/error.h makes an expression.
files=$(find "$@" -name '*.c' ! -path kernels/base/error.c | sort)
flags="-std=c11 -D_GNU_SOURCE -DHAVE_CONFIG_H -I. -I$build"
command -v "${tool:-none}" >/dev/null || { echo "skipped: no $tool"; exit 77; }
case $tool in
cppcheck)
    # shellcheck disable=SC2086
    cppcheck -q --std=c11 --enable=warning,portability --error-exitcode=1 \
        --suppressions-list=tests/analyze/cppcheck.txt -j "$jobs" \
        -D_GNU_SOURCE -DHAVE_CONFIG_H -I. -I"$build" \
        '-DcJSON_ArrayForEach(e,a)=for(e=(a)->child;e;e=e->next)' \
        --template='{file}:{line}: {id}: {message}' $files || exit 1
    ;;
clang-tidy)
    # shellcheck disable=SC2086
    echo "$files" | xargs -P "$jobs" -I FILE clang-tidy --quiet \
        --config-file=tests/analyze/clang-tidy.yaml FILE -- $flags \
        -include tests/analyze/error.h 2>/dev/null || exit 1
    ;;
gcc)
    # shellcheck disable=SC2086
    echo "$files" | xargs -P "$jobs" -I FILE gcc $flags -O1 -fanalyzer \
        -Werror -include tests/analyze/error.h -c -o /dev/null FILE || exit 1
    ;;
*)
    echo "usage: tests/analyze/run.sh cppcheck|clang-tidy|gcc [FOLDER|FILE...]" >&2
    exit 2
    ;;
esac
echo "$tool: $(echo "$files" | wc -l) files, no findings"
