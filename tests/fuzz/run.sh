#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target given for FUZZ_SECONDS.  Seeds are all files of
# TEST_DATA that are small enough and those of the folder SEEDS; what is found
# stays in corpus/ and findings/ under the working folder.
seconds=${FUZZ_SECONDS-60}
status=0
mkdir -p findings seeds
if test -n "$SEEDS"; then
    cp "$SEEDS"/* seeds/ 2>/dev/null && chmod u+w seeds/*
fi
if test -n "$TEST_DATA" && test ! -e seeds/done; then
    find "$TEST_DATA" -type f -size -8k | while read -r file; do
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
for program in "$@"; do
    name=$(basename "$program")
    mkdir -p "corpus/$name"
    echo "fuzz: $name for $seconds s"
    "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -max_len=32768 -artifact_prefix="findings/$name-" -print_final_stats=1 \
        "corpus/$name" seeds > "findings/$name.log" 2>&1 || {
        echo "fuzz: $name FAILED, see findings/$name.log"
        status=1
    }
done
exit $status
