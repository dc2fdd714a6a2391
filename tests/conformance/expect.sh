# SPDX-License-Identifier: Apache-2.0
# Read by the tests of command lines: a folder of their own, what is expected
# and how it went.  srcdir is set by make check, the tools lie in the current
# folder.
# shellcheck shell=sh disable=SC2034
set -u
src=${srcdir:-.}
here=$(pwd)
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
failed=0
count=0

fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# expect CODE PATTERN COMMAND...: exit status and a line of the output.
expect() {
    code=$1 pattern=$2
    shift 2
    count=$((count + 1))
    "$@" >"$dir/out" 2>&1
    got=$?
    if [ "$got" != "$code" ]; then
        fail "exit $got, not $code: $*"
        head -n 5 "$dir/out"
    elif ! grep -q -e "$pattern" "$dir/out"; then
        fail "no '$pattern' from: $*"
        head -n 5 "$dir/out"
    fi
}

# absent FILE: it must not exist.
absent() {
    count=$((count + 1))
    [ ! -e "$1" ] || fail "$1 was written"
}

# The last line of a test.
report() {
    echo "$count checks, $failed failed"
    [ "$failed" = 0 ]
}
