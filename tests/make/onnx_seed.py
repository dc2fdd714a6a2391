#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/seed_net.onnx: a convolution, a batch norm, an activation, a
branch that is added, the mean and a dense layer.  Needs onnx and numpy.

usage: onnx_seed.py OUT
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main():
    rng = np.random.default_rng(5)

    def weight(name, *shape):
        return numpy_helper.from_array(
            (rng.random(shape, dtype=np.float32) - 0.4), name)

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "g", "s", "m", "v"],
                         ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r"], ["a"]),
        helper.make_node("GlobalAveragePool", ["a"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "d", "e"], ["y"], transB=1),
    ]
    positive = numpy_helper.from_array(
        rng.random(4, dtype=np.float32) + 0.5, "v")
    graph = helper.make_graph(
        nodes, "seed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT,
                                       ["N", 2, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [weight("w", 4, 2, 3, 3), weight("b", 4), weight("g", 4),
         weight("s", 4), weight("m", 4), positive, weight("w2", 4, 4, 3, 3),
         weight("d", 3, 4), weight("e", 3)])
    model = helper.make_model(graph, producer_name="libinfer tests",
                              opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    with open(sys.argv[1], "wb") as f:
        f.write(model.SerializeToString())


main()
