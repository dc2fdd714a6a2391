#!/bin/bash -eu
# SPDX-License-Identifier: Apache-2.0
# Builds every fuzz target into $OUT with its seeds, dictionary and options, as
# OSS-Fuzz wants them.  CC, CXX, CFLAGS, CXXFLAGS, LIB_FUZZING_ENGINE, SRC, WORK
# and OUT are given; SRC/libinfer is the source.
src=$SRC/libinfer
[ -x "$src/configure" ] || (cd "$src" && autoreconf -fi)
mkdir -p "$WORK/build"
cd "$WORK/build"
# A program on the base runner finds no shared libraries of others: they are
# taken along, beside it.
"$src/configure" -q --enable-fuzzing --disable-shared --disable-openmp \
    --without-onednn --without-cuda LDFLAGS="${LDFLAGS-} -Wl,-rpath,'\$\$ORIGIN/lib'"
# An engine is C++: the C++ compiler links.
make -s -j"$(nproc)" fuzz-targets CCLD="$CXX"
python3 "$src/tests/make/fuzz_dicts.py" "$src" "$OUT"
mkdir -p "$OUT/lib"
for program in tests/fuzz/* tests/fuzz/*/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    name=$(basename "$program")
    cp "$program" "$OUT/$name"
    ldd "$program" | awk '/lib(cjson|png|jpeg|z)[.0-9]*\.so/ { print $3 }' |
        xargs -r cp -Lt "$OUT/lib"
    rm -rf seeds
    mkdir seeds
    cp "$src"/tests/data/seed_* seeds/
    pack=$src/tests/fuzz/corpus/$name.pack.gz
    [ "$name" != passes ] || pack=$src/tests/fuzz/corpus/onnx.pack.gz
    [ "$name" != emit ] || pack=$src/tests/fuzz/corpus/model.pack.gz
    [ ! -f "$pack" ] ||
        python3 "$src/tests/make/fuzz_packs.py" --unpack "$pack" seeds
    find seeds -type f -print0 | sort -z | xargs -0 zip -qj "$OUT/${name}_seed_corpus.zip"
    printf '[libfuzzer]\nmax_len = 32768\ntimeout = 10\nrss_limit_mb = 1024\nmalloc_limit_mb = 512\nclose_fd_mask = 1\n' \
        >"$OUT/$name.options"
done
