#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Threads that share a model, sessions and models opened and closed: the same
# bits, no memory that grows (soak.c says what is allowed).  Run by make check;
# the long run by `make soak` (SOAK="THREADS RUNS CYCLES OPENS").
# srcdir is set by make; the tools lie in the current folder.
. "${srcdir:-.}/tests/conformance/expect.sh"

"$here/wconv" "$src/samples/digits/digits.safetensors" \
    --arch="$src/samples/digits/digits.json" -o "$dir/digits.infer" -q ||
    exit 1
"$here/wconv" "$src/tests/data/seed_net.onnx" -o "$dir/net.infer" -q || exit 1
for model in digits net; do
    for backend in auto ref; do
        echo "$model, $backend:"
        # shellcheck disable=SC2086
        "$here/tests/soak/soak" "$dir/$model.infer" ${SOAK:-4 200 100 100} \
            $backend || fail "$model, $backend"
    done
done
[ "$failed" = 0 ]
