#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/regions: the loops of torchvision's Mask R-CNN and Keypoint
R-CNN, as its exporter writes them, with inputs and ONNX Runtime's outputs.

    regions.py FOLDER

other.onnx is the loop of masks.onnx with boxes that are one pixel wider, which
pastes at other places: a reader that takes it for the same is wrong.
"""
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from torchvision.models.detection import roi_heads

warnings.simplefilter("ignore")


class Masks(torch.nn.Module):
    def forward(self, masks, boxes):
        return roi_heads.paste_masks_in_image(masks, boxes, (20, 25))


class Keypoints(torch.nn.Module):
    def forward(self, maps, boxes):
        return roi_heads.heatmaps_to_keypoints(maps, boxes.clamp(0, 24))


def write(folder, name, module, inputs):
    path = "%s/%s.onnx" % (folder, name)
    torch.onnx.export(module.eval(), inputs, path, dynamo=False,
                      opset_version=17)
    session = onnxruntime.InferenceSession(path)
    arrays = [x.numpy() for x in inputs]
    outputs = session.run(None, {
        i.name: x for i, x in zip(session.get_inputs(), arrays)})
    own = module(*inputs)
    for a, b in zip(outputs, [own] if torch.is_tensor(own) else own):
        assert np.abs(a - b.numpy()).max() < 1e-5
    np.savez("%s/%s.npz" % (folder, name),
             **{"input%d" % i: x for i, x in enumerate(arrays)},
             **{"output%d" % i: y for i, y in enumerate(outputs)})
    return path


def widen(path, to):
    """The first 1 that is added in the body becomes 2."""
    model = onnx.load(path)
    loop = [n for n in model.graph.node if n.op_type == "Loop"][0]
    body = [a.g for a in loop.attribute if a.name == "body"][0]
    add = [n for n in body.node if n.op_type == "Add"][0]
    one = [n for n in body.node if n.output[0] == add.input[1]][0]
    value = numpy_helper.to_array(one.attribute[0].t)
    assert value.tolist() == [1]
    one.attribute[0].t.CopyFrom(numpy_helper.from_array(value + 1))
    onnx.save(model, to)


def main():
    folder = sys.argv[1]
    torch.manual_seed(3)
    boxes = torch.tensor([[2.3, 3.1, 11.7, 9.2], [-1.0, 12.5, 7.5, 19.9],
                          [10.2, 0., 24.9, 19.]])
    path = write(folder, "masks", Masks(), (torch.rand(3, 1, 6, 6), boxes))
    widen(path, folder + "/other.onnx")
    write(folder, "keypoints", Keypoints(), (torch.randn(2, 3, 7, 7),
                                             boxes[:2].clone()))


if __name__ == "__main__":
    main()
