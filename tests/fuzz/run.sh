#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target given for FUZZ_SECONDS, FUZZ_JOBS of them at once, with
# its dictionary.  Seeds are its committed corpus, the files of tests/data and
# those files of TEST_DATA that are small enough; what is found stays in corpus/
# and findings/ under the working folder.  The last line of each says how many
# executions it had and what it covered.  Exit 1 if a target found something.
seconds=${FUZZ_SECONDS-60}
src=${srcdir:-.}

# What one target does; run.sh calls itself for it.
if [ "${1-}" = --one ]; then
    name=$(basename "$2")
    mkdir -p "corpus/$name" "seeds-$name"
    pack=$src/tests/fuzz/corpus/$name.pack.gz
    # This target reads the same files as another one.
    [ "$name" != passes ] || pack=$src/tests/fuzz/corpus/onnx.pack.gz
    [ "$name" != emit ] || pack=$src/tests/fuzz/corpus/model.pack.gz
    [ ! -f "$pack" ] || python3 "$src/tests/make/fuzz_packs.py" --unpack \
        "$pack" "seeds-$name" >/dev/null
    dict=dict/$name.dict
    [ -f "$dict" ] || dict=
    mask=1 # standard output
    [ "$name" != command ] || mask=3
    "$2" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -malloc_limit_mb=512 -max_len=32768 -close_fd_mask=$mask \
        ${dict:+-dict="$dict"} -artifact_prefix="findings/$name-" \
        -print_final_stats=1 "corpus/$name" "seeds-$name" seeds \
        >"findings/$name.log" 2>&1
    rc=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "findings/$name.log")
    edges=$(grep -ao 'cov: [0-9]*' "findings/$name.log" | tail -n 1)
    echo "fuzz: $name: ${runs:-0} executions in $seconds s, ${edges:-no coverage}"
    [ "$rc" = 0 ] || echo "fuzz: $name FAILED, see findings/$name.log"
    exit "$rc"
fi

mkdir -p findings seeds corpus
python3 "$src/tests/make/fuzz_dicts.py" "$src" dict || exit
cp "$src"/tests/data/seed_* seeds/ 2>/dev/null && chmod u+w seeds/*
if test -n "$TEST_DATA" && test ! -e seeds/done; then
    find "$TEST_DATA" -type f -size -8k ! -path '*/light/*' |
        while read -r file; do
            sum=$(cksum < "$file" | tr ' ' '-')
            cp "$file" "seeds/$sum"
            chmod u+w "seeds/$sum"
        done
    # Pickles inside archives, for the targets that take them bare.
    for file in seeds/*; do
        unzip -p "$file" '*/data.pkl' > "$file.pkl" 2>/dev/null
        test -s "$file.pkl" || rm -f "$file.pkl"
    done
    : > seeds/done
fi
printf '%s\n' "$@" | xargs -P "${FUZZ_JOBS:-1}" -I TARGET sh "$0" --one TARGET
