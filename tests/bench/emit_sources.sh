# SPDX-License-Identifier: Apache-2.0
# Read by emit_peers.sh and emit_cortex.sh: C of $net by wconv, onnx2c and
# emx-onnx-cgen in $work, each given to their measure(); $5 and $6 are theirs.
"$wconv" -q "$net" --emit-c="$work/net.c"
measure 'wconv, double' "$work/net.c" net_run
measure 'wconv, float' "$work/net.c" net_run -DNET_REAL=float
if [ $# -gt 4 ]; then
    "$5" "$net" >"$work/onnx2c.c"
    measure onnx2c "$work/onnx2c.c" entry
fi
if [ $# -gt 5 ]; then
    "$6" compile "$net" "$work/emx.c" --large-weight-threshold 0 \
        --large-temp-threshold 0 >"$work/log"
    measure emx-onnx-cgen "$work/emx.c" model
fi
