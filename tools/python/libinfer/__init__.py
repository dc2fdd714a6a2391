# SPDX-License-Identifier: Apache-2.0
"""Runs optimised convolutional networks on CPUs and NVIDIA GPUs.

    import libinfer

    libinfer.convert("resnet50.onnx", "resnet50.infer", preset="imagenet")
    model = libinfer.Model("resnet50.infer")
    session = libinfer.Session(model)
    (scores,) = session.run(model.preprocess("cat.jpg"))
    scores.numpy().argmax()

    libinfer.train("mnist", "lenet5.safetensors", arch="lenet5", epochs=5)
    libinfer.convert("lenet5.safetensors")

Arrays are logical N,C,H,W.  Inputs are NumPy arrays, PyTorch or CuPy tensors, or
anything with the buffer protocol or __dlpack__; outputs are Tensors, which NumPy and
PyTorch read without a copy.  Sessions may be used by any thread, one at a time; the
interpreter's lock is released while they run.
"""

from . import _native
from ._native import Model, Session, Tensor, doctor
from .convert import convert
from .errors import (
    ArgumentError,
    ConversionError,
    DeviceError,
    Error,
    FileError,
    FormatError,
    MemoryLimitError,
    MismatchError,
    TrainingError,
    UnsupportedError,
)
from .info import TensorInfo
from .train import train

__version__ = _native.version

__all__ = [
    "ArgumentError", "ConversionError", "DeviceError", "Error", "FileError",
    "FormatError", "MemoryLimitError", "MismatchError", "Model", "Session", "Tensor",
    "TensorInfo", "TrainingError", "UnsupportedError", "convert", "doctor", "train",
]  # fmt: skip

