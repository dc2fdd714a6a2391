#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What train's processes have of MPI, on two hosts that two_hosts.sh imitates:
# they meet, know their places on their hosts, share what process 0 has, and end
# with the one that fails.  Run by make check in builds with MPI.
set -u
src=${srcdir:-.}
run() {
    timeout 60 "$src/tests/conformance/two_hosts.sh" 2 \
        tests/unit/tools/train_mpi "$1"
}

run hosts
code=$?
[ $code != 77 ] || exit 77
[ $code = 0 ] || { echo "FAILED: exit status $code"; exit 1; }
run hosts-fail >/dev/null 2>&1
code=$?
[ $code = 9 ] || { echo "FAILED: exit status $code, not 9"; exit 1; }
echo "two hosts met, and ended with the process that failed"
