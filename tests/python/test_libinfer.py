# SPDX-License-Identifier: Apache-2.0
"""Tests of the Python package; DIGITS names the folder of the sample network."""

import gc
import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import libinfer

DIGITS = Path(os.environ["DIGITS"])
NAMES = "zero one two three four five six seven eight nine".split()


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    to = tmp_path_factory.mktemp("model") / "digits.infer"
    made = libinfer.convert(
        DIGITS / "digits.safetensors", to, arch=DIGITS / "digits.json", verify=True
    )
    assert made == to
    return to


@pytest.fixture
def model(path):
    return libinfer.Model(path)


@pytest.fixture
def session(model):
    return libinfer.Session(model, backend="ref", threads=1)


@pytest.fixture
def pictures(model):
    return model.preprocess([DIGITS / "images" / f"{i}.png" for i in range(10)])


def test_facts(model):
    assert model.labels == NAMES
    (info,) = model.inputs
    assert info.dtype == "float32" and info.shape == (None, 1, 28, 28)
    assert model.outputs[0].shape == (None, 10)
    assert libinfer.__version__.count(".") == 2
    assert "oneDNN" in libinfer.doctor() or "cpu" in libinfer.doctor().lower()


def test_ten_digits(session, pictures):
    (scores,) = session.run(pictures)
    assert scores.shape == (10, 10) and len(scores) == 10
    assert scores.dtype == "float32" and scores.device == "cpu"
    assert scores.name == "scores" and session.layers[-1]["name"] == "fc"
    assert scores.numpy().argmax(1).tolist() == list(range(10))


def test_pictures_in_memory(model):
    file = DIGITS / "images" / "7.png"
    a = model.preprocess(file).numpy()
    b = model.preprocess(file.read_bytes()).numpy()
    assert a.shape == (1, 1, 28, 28) and (a == b).all()
    pixels = np.zeros((28, 28, 3), np.uint8)
    pixels[..., 0] = 255
    gray = np.full((28, 28), 54, np.uint8)  # 0.2126 * 255, or 0.299 * 255
    red = model.preprocess(pixels).numpy()
    assert (red == red[0, 0, 0, 0]).all() and red[0, 0, 0, 0] > 0
    assert model.preprocess([pixels, gray]).shape == (2, 1, 28, 28)
    for wrong in (np.zeros((28, 28, 4), np.uint8), np.zeros((28, 28), np.float32)):
        with pytest.raises(ValueError, match="uint8"):
            model.preprocess(wrong)
    assert (model.preprocess(file, size=None).numpy() == a).all()
    assert (model.preprocess(file, size=[28, 28]).numpy() == a).all()
    with pytest.raises(TypeError, match="height, width"):
        model.preprocess(file, size=(28,))
    with pytest.raises(libinfer.UnsupportedError, match="neither PNG"):
        model.preprocess(b"no picture")
    assert issubclass(libinfer.FileError, OSError)
    with pytest.raises(libinfer.FileError, match="none.png"):
        model.preprocess("none.png")


def test_detect(tmp_path):
    """Boxes of outputs that are written by hand: YOLOv8's rows, 64 x 64 pixels."""
    arch = {
        "infer": 1, "name": "n",
        "inputs": [{"name": "x", "dtype": "F32", "shape": [-1, 3, 64, 64]}],
        "nodes": [{"name": "r", "op": "unary", "in": ["x"], "out": ["y"],
                   "attr": {"kind": "relu"}}],
        "outputs": ["y"], "labels": ["cat", "dog"], "task": "detect",
        "weights": {},
    }
    (tmp_path / "n.json").write_text(json.dumps(arch))
    model = libinfer.Model(libinfer.convert(tmp_path / "n.json", tmp_path / "n.infer"))
    y = np.zeros((1, 6, 84), np.float32)
    y[0, :, 5] = 20, 30, 10, 20, 0, 0.75
    y[0, :, 6] = 21, 30, 10, 20, 0, 0.5  # overlaps
    (box,) = model.detect([y], (64, 128))
    assert box == {"class": 1, "label": "dog", "score": 0.75, "left": 30.0, "top": 20.0,
                   "right": 50.0, "bottom": 40.0}
    assert len(model.detect([y], np.zeros((64, 64, 3), np.uint8), iou=1)) == 2
    assert model.detect([y], (64, 64), score=0.9) == []
    assert len(model.detect([y], (64, 64), size=None)) == 1
    with pytest.raises(ValueError, match="65 are given, at most 64"):
        model.detect([y] * 65, (64, 64))
    with pytest.raises(ValueError, match="the model has 1"):
        model.detect([y, y], (64, 64))
    with pytest.raises(ValueError, match="dense"):
        model.detect([y[:, :, ::2]], (64, 64))
    with pytest.raises(TypeError):
        model.detect(3, (64, 64))


def test_from_memory(path):
    data = bytearray(path.read_bytes())
    with libinfer.Model(data) as model:
        session = libinfer.Session(model)
    with pytest.raises(BufferError):
        data.append(0)  # the session still needs the bytes
    (y,) = session.run(np.zeros((1, 1, 28, 28), np.float32))
    assert y.shape == (1, 10)
    session.close()
    data.append(0)
    with pytest.raises(libinfer.FormatError, match="model in memory"):
        libinfer.Model(b"x" * 100)
    with pytest.raises(ValueError, match="closed"):
        session.run(np.zeros((1, 1, 28, 28), np.float32))
    with pytest.raises(ValueError, match="closed"):
        libinfer.Session(model)


def test_inputs(session, pictures):
    x = pictures.numpy()
    want = session.run(x)[0].numpy()
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    flipped = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    for same in (last, flipped, [x], (x,), {"image": x}, memoryview(x)):
        assert (session.run(same)[0].numpy() == want).all()
    every = x.astype(np.float64)
    assert np.allclose(session.run(every)[0].numpy(), want, atol=1e-6)
    half = session.run(x.astype(np.float16))[0].numpy()
    assert np.allclose(half, want, atol=0.05)


def test_refused(session):
    x = np.zeros((1, 1, 28, 28), np.float32)
    with pytest.raises(libinfer.ArgumentError, match="1x1x28x27, expected"):
        session.run(x[..., :27])
    with pytest.raises(libinfer.ArgumentError) as caught:
        session.run({"nothing": x})
    assert caught.value.code == -1 and "'nothing'" in str(caught.value)
    assert isinstance(caught.value, ValueError)
    for wrong, text in (([x, x], "2 inputs"), ([], "0 inputs")):
        with pytest.raises(libinfer.Error, match=text):
            session.run(wrong)
    for wrong in (3, "text", None):
        with pytest.raises(TypeError, match="expected an array"):
            session.run(wrong)
    with pytest.raises(BufferError, match="format"):
        session.run(np.zeros((1, 1, 28, 28), np.complex64))
    with pytest.raises(ValueError, match="more than"):
        session.run([x] * 65)


def test_options(model):
    for wrong in ({"backend": "tpu"}, {"precision": "fp8"}, {"device": "tpu"}):
        with pytest.raises(ValueError, match="is not known|tpu"):
            libinfer.Session(model, **wrong)
    with pytest.raises(ValueError, match="auto, ref, onednn, cuda, cudnn, cpu"):
        libinfer.Session(model, backend="tpu")
    with pytest.raises(libinfer.MemoryLimitError):
        libinfer.Session(model, max_memory=100)
    with pytest.raises(TypeError):
        libinfer.Session(model, colour=3)
    lines = []
    session = libinfer.Session(model, log=lambda level, text: lines.append((level, text)))
    session.run(np.zeros((1, 1, 28, 28), np.float32))
    assert any(level == 2 and "plan for 1x1x28x28" in text for level, text in lines)
    half = libinfer.Session(model, backend="ref", precision="fp16", keep_tensors=True)
    half.run(np.zeros((1, 1, 28, 28), np.float32))
    assert half.read("r1").shape == (1, 8, 28, 28)
    assert half.layers[0]["kernel"].endswith("ref")


def test_log_that_calls_back(model):
    sessions = []
    errors = []

    def log(level, text):
        try:
            sessions[0].run(np.zeros((1, 1, 28, 28), np.float32))
        except (RuntimeError, IndexError) as error:
            errors.append(error)

    sessions.append(libinfer.Session(model, log=log))
    sessions[0].run(np.zeros((1, 1, 28, 28), np.float32))
    assert any("in use by this thread" in str(e) for e in errors)


def test_out(session, pictures):
    want = session.run(pictures)[0].numpy()
    y = np.full((10, 10), np.nan, np.float32)
    (back,) = session.run(pictures, out=y)
    assert back is y and (y == want).all()
    with pytest.raises(libinfer.ArgumentError, match="room for"):
        session.run(pictures, out=np.zeros((10, 9), np.float32))
    with pytest.raises((BufferError, ValueError)):
        session.run(pictures, out=bytes(400))
    with pytest.raises(BufferError, match="dense"):
        session.run(pictures, out=np.zeros((10, 20), np.float32)[:, ::2])
    for wrong in (np.zeros((10, 10)), np.zeros((1, 100), np.float32)):
        with pytest.raises(ValueError, match="type .float32. and shape"):
            session.run(pictures, out=wrong)
    with pytest.raises(ValueError, match="2 arrays for 1 outputs"):
        session.run(pictures, out=[y, y])


def test_lend(session, pictures):
    want = session.run(pictures)[0].numpy()
    (y,) = session.run(pictures, lend=True)
    view = y.numpy()
    assert (view == want).all() and not view.flags.writeable
    with pytest.raises(BufferError, match="still in use"):
        session.run(pictures)
    with pytest.raises(BufferError, match="still in use"):
        session.close()
    del view
    gc.collect()
    session.run(pictures)
    with pytest.raises((BufferError, ValueError), match="until the next run"):
        memoryview(y)
    with pytest.raises(BufferError):
        y.__dlpack__()


def test_no_copy(session, pictures):
    (y,) = session.run(pictures)
    a, b = y.numpy(), np.asarray(y)
    assert a.__array_interface__["data"] == b.__array_interface__["data"]
    c = np.from_dlpack(y)
    assert c.__array_interface__["data"][0] == a.__array_interface__["data"][0]
    keep = a.copy()
    del y, a, b
    gc.collect()
    assert (c == keep).all()  # the last user keeps the memory


def test_dlpack_input(session, pictures):
    class Only:
        """A tensor that has DLPack alone, of an old library."""

        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, stream=None):
            return self.tensor.__dlpack__()

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    want = session.run(pictures)[0].numpy()
    assert (session.run(Only(pictures))[0].numpy() == want).all()


def test_torch(session, pictures, path):
    torch = pytest.importorskip("torch")
    want = session.run(pictures)[0].numpy()
    x = torch.from_dlpack(pictures)
    assert x.data_ptr() == pictures.numpy().__array_interface__["data"][0]
    (y,) = session.run(x)
    assert (torch.from_dlpack(y).numpy() == want).all()
    with pytest.raises(BufferError, match="gradient"):
        session.run(x.clone().requires_grad_())
    given = torch.zeros(10, 10)
    assert session.run(x, out=given)[0] is given and (given.numpy() == want).all()
    with pytest.raises(BufferError, match="dense"):
        session.run(x, out=torch.zeros(10, 20)[:, ::2])
    last = x.contiguous(memory_format=torch.channels_last)
    assert (session.run(last)[0].numpy() == want).all()
    if torch.cuda.is_available() and "GPU cuda:0: " in libinfer.doctor():
        gpu = libinfer.Session(libinfer.Model(path), device="cuda:0")
        on_gpu = x.cuda()
        for _ in range(4):  # launched, recorded, replayed
            (y,) = gpu.run(on_gpu, lend=True)
            t = torch.from_dlpack(y)
            assert t.is_cuda and np.allclose(t.cpu().numpy(), want, atol=1e-4)
            assert torch.from_dlpack(y).data_ptr() == t.data_ptr()
            del t
        assert np.allclose(gpu.run(on_gpu * 1)[0].numpy(), want, atol=1e-4)
        given = torch.zeros(10, 10, device="cuda")
        assert gpu.run(pictures, out=given)[0] is given
        assert np.allclose(given.cpu().numpy(), want, atol=1e-4)


def test_threads(model, pictures):
    session = libinfer.Session(model, threads=1)
    want = session.run(pictures)[0].numpy().copy()
    wrong = []

    def work():
        for n in (1, 10, 3, 10):
            got = session.run(pictures.numpy()[:n])[0].numpy()
            if not np.allclose(got, want[:n], atol=1e-5):
                wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_train(tmp_path):
    for part in ("train", "test"):
        for i, name in enumerate(NAMES):
            to = tmp_path / "data" / part / name
            to.mkdir(parents=True)
            (to / "1.png").write_bytes((DIGITS / "images" / f"{i}.png").read_bytes())
    checkpoint = tmp_path / "a.safetensors"
    report = libinfer.train(
        tmp_path / "data", checkpoint, arch=DIGITS / "digits.json", batch=5,
        optimizer="adam", lr=0.01, epochs=60, threads=1, seed=3,
    )  # fmt: skip
    assert report["steps"] == report["total_steps"] == 120
    assert report["checkpoint"] == str(checkpoint)
    assert report["val_accuracy"] == 1.0
    model = libinfer.Model(libinfer.convert(checkpoint))
    assert model.labels == sorted(NAMES)  # the folders' order
    (scores,) = libinfer.Session(model).run(
        model.preprocess([DIGITS / "images" / f"{i}.png" for i in range(10)])
    )
    shown = [model.labels[i] for i in scores.numpy().argmax(1)]
    assert shown == NAMES


def test_train_refused(tmp_path):
    with pytest.raises(libinfer.TrainingError, match="none-such") as e:
        libinfer.train(tmp_path / "none-such", tmp_path / "x", arch="lenet5")
    assert e.value.code == 2 and e.value.status == "training"
    with pytest.raises(libinfer.TrainingError, match="epochz") as e:
        libinfer.train(tmp_path, tmp_path / "x", arch="lenet5", epochz=3)
    assert e.value.code == 1 and not (tmp_path / "x").exists()


def test_convert_reports(tmp_path, caplog):
    """The report is logged: what is assumed of pictures, and notes as warnings."""
    labels = tmp_path / "labels.txt"
    labels.write_text("one\ntwo\n")
    with caplog.at_level("INFO", logger="libinfer"):
        libinfer.convert(
            f"{DIGITS}/digits.safetensors",
            tmp_path / "digits.infer",
            arch=f"{DIGITS}/digits.json",
            labels=labels,
        )
    said = {(r.levelname, r.message.split()[0]) for r in caplog.records}
    assert ("INFO", "pictures") in said and ("INFO", "task") in said
    assert any("2 labels for 10 classes" in r.message for r in caplog.records if r.levelno > 20)


def test_convert_refused(tmp_path):
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"\x00" * 64)
    with pytest.raises(libinfer.ConversionError, match="bad.onnx") as caught:
        libinfer.convert(bad)
    assert caught.value.code == 2
    assert not bad.with_suffix(".infer").exists()


def test_no_leak(model, pictures):
    """References of arrays and names come back."""
    import sys

    session = libinfer.Session(model, backend="ref", threads=1)
    x = pictures.numpy()[:1].copy()
    before = sys.getrefcount(x)
    for _ in range(50):
        session.run(x)
        session.run({"image": x}, lend=True)
        with pytest.raises(libinfer.Error):
            session.run([x, x])
    assert sys.getrefcount(x) == before
