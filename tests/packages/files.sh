#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make dist` would hold every file that git tracks: by the names in the Makefile of
# the build folder, without making the folder, which takes longer than a test may
# (tests/dist compares that one, too).  Skips outside a checkout.
set -eu
src=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
[ -e "$src/.git" ] && command -v git >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '%s\n' 'include Makefile' \
    '$(foreach file,$(DISTFILES),$(info $(patsubst $(srcdir)/%,%,$(file))))' \
    'nothing:;@:' >"$work/list.mk"
"${MAKE:-make}" -s -f "$work/list.mk" nothing 2>"$work/log" | sort -u >"$work/named"
grep -qx 'include/infer.h' "$work/named" || {
    cat "$work/log" "$work/named"
    echo "the Makefile names no files"
    exit 1
}
# What only git and the continuous integration use is not part of a release; a folder
# stands for all its files.
git -C "$src" ls-files | grep -v '^\.ci/\|^\.gitattributes$\|^\.gitignore$' |
    awk -v named="$work/named" '
        BEGIN { while ((getline line < named) > 0) has[line] = 1 }
        {
            for (path = $0; path != "" && !(path in has);)
                if (!sub(/\/[^\/]*$/, "", path))
                    path = ""
            if (path == "") {
                print "make dist leaves out " $0
                missing = 1
            }
        }
        END { exit missing }'
