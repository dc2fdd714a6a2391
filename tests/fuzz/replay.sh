#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Replays the committed corpus: each fuzz target given runs on its pack in
# tests/fuzz/corpus and on every file of tests/data.  Run by make check; with
# FUZZ_REPORT=FILE it also writes the inputs and seconds of each target.  The
# ends of a pack's inputs are compared with tests/fuzz/verdicts/NAME: what was
# accepted stays so, and what was malformed is not accepted; FUZZ_WORDS=1: in the
# same words.
# FUZZ_UPDATE=1 writes the file instead (make update-verdicts).
set -u
src=${srcdir:-.}
rc=0
for program in "$@"; do
    name=$(basename "$program")
    pack=$src/tests/fuzz/corpus/$name.pack.gz
    # This target reads the same files as another one.
    [ "$name" != passes ] || pack=$src/tests/fuzz/corpus/onnx.pack.gz
    [ "$name" != emit ] || pack=$src/tests/fuzz/corpus/model.pack.gz
    [ -f "$pack" ] || pack=
    verdicts=$src/tests/fuzz/verdicts/$name
    unset FUZZ_VERDICTS FUZZ_RECORD
    if [ -n "${FUZZ_UPDATE-}" ]; then
        [ -z "$pack" ] || [ "$name" = passes ] || [ "$name" = emit ] ||
            export FUZZ_RECORD="$verdicts"
    elif [ -f "$verdicts" ] && [ -z "${FUZZ_MUTANTS-}" ]; then
        export FUZZ_VERDICTS="$verdicts"
    fi
    # shellcheck disable=SC2086
    if out=$("./$program" $pack "$src"/tests/data/seed_* 2>&1); then
        echo "PASS: $name, $(echo "$out" | tail -n 1)"
    else
        echo "FAIL: $name: $out"
        rc=1
    fi
done
exit $rc
