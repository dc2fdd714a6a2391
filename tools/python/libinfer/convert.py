# SPDX-License-Identifier: Apache-2.0
"""Conversion of trained weights by wconv."""

import logging
from pathlib import Path

from . import tools
from .errors import ConversionError


def convert(source, output=None, **options):
    """Converts trained weights into a model file and returns its path.

    source: ONNX, PyTorch, safetensors, NumPy, Keras, TensorFlow, TensorFlow Lite,
    Darknet, Caffe or ncnn.  output: by default the source's name with .infer.
    Options are those of wconv(1) with _ for -: arch="resnet50", preset="imagenet",
    labels="synset.txt", mean=(0.5, 0.5, 0.5), quantize="int8", verify=True.
    Raises ConversionError with wconv's text.  What wconv reports (passes, what is
    assumed of pictures, the task) goes to the logger "libinfer" as info, its notes
    as warnings.
    """
    source = Path(source)
    output = Path(output) if output is not None else source.with_suffix(".infer")
    report = tools.run(
        [
            tools.find_tool("wconv"),
            f"--output={output}",
            *tools.options(options),
            "--",
            str(source),
        ],
        ConversionError,
        "conversion",
    )
    for line in report.splitlines():
        logging.getLogger("libinfer").info("%s", line)
    return output
