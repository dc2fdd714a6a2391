# SPDX-License-Identifier: Apache-2.0
"""Hostile descriptions of networks: Darknet, Caffe, ncnn, Keras, torch.export."""
import io
import json
import struct
import zipfile

from hostile_files.bytes import nested, number, size


def darknet(draw):
    big = size(draw, 4, 40)
    n = draw.choice((1, 16, 1000, 30000))
    layer = draw.choice((
        f"[convolutional]\nfilters={big}\nsize={draw.choice((1, 3, 99, big))}\nstride=1\npad=1\n",
        f"[connected]\noutput={big}\n", f"[upsample]\nstride={draw.choice((2, 64, big))}\n",
        f"[route]\nlayers=-1{',-1' * draw.choice((1, 100))}\n", "[shortcut]\nfrom=-1\n",
        f"[maxpool]\nsize={big}\nstride=1\n", f"[local]\nfilters={big}\nsize=3\n",
        f"[lstm]\noutput={big}\n", "[nope]\n"))
    text = (f"[net]\nwidth={draw.choice((8, 416, big))}\nheight=8\nchannels={draw.choice((3, big))}\n" +
            layer * n + draw.choice(("", "[yolo]\nmask=0\nclasses=1\nnum=1\nanchors=1,1\n", "[nope]\n")))
    weights = struct.pack("<iiiq", 0, 2, 0, 0) + bytes(draw.choice((0, 64, 1 << 16)))
    return {"-1": (".cfg", text.encode()), "-2": (".weights", weights)}


def caffe(draw):
    big = size(draw, 4, 31)
    n = draw.choice((1, 30, 3000, 30000))
    kind = draw.randrange(5)
    text = 'name: "n"\ninput: "x"\ninput_dim: 1\ninput_dim: 3\ninput_dim: 8\ninput_dim: 8\n'
    if kind == 0:
        text += "layer { " * n + "} " * n
    elif kind == 1:
        text += "".join(f'layer {{ name: "c{i}" type: "Convolution" bottom: "x" top: "x" '
                        f'convolution_param {{ num_output: {big} kernel_size: 3 }} }}\n' for i in range(min(n, 3000)))
    elif kind == 2:
        text += f'layer {{ name: "t" type: "Tile" bottom: "x" top: "y" tile_param {{ tiles: {big} }} }}\n' * min(n, 30)
    elif kind == 3:
        text += f'layer {{ name: "p" type: "PriorBox" bottom: "x" bottom: "x" top: "y" prior_box_param {{ {"min_size: 3 " * n} }} }}\n'
    else:
        text += f'layer {{ name: "d" type: "InnerProduct" bottom: "x" top: "y" inner_product_param {{ num_output: {big} }} }}\n'
    blob = nested(7, number(1, big) + number(1, 3)) + nested(5, bytes(draw.choice((0, 64, 4096))))
    blobs = nested(1, "n") + b"".join(
        nested(100, nested(1, f"c{i}") + nested(2, "Convolution") + nested(7, blob)) for i in range(min(n, 3000)))
    return {"-1": (".prototxt", text.encode()), "-2": (".caffemodel", blobs)}


def ncnn(draw):
    big = size(draw, 4, 40)
    n = draw.choice((1, 30, 3000, 30000))
    layers = ["Input x 0 1 x 0=8 1=8 2=3"]
    kind = draw.randrange(5)
    last = "x"
    for i in range(n):
        layers.append({
            0: f"Convolution c{i} 1 1 {last} b{i} 0={big} 1=3 6={draw.choice((1, big))}",
            1: f"Split s{i} 1 1 {last} b{i}",
            2: f"MemoryData m{i} 0 1 b{i} 0={big} 1={big}",
            3: f"InnerProduct d{i} 1 1 {last} b{i} 0={big} 2={big}",
            4: f"Concat j{i} 2 1 {last} {last} b{i} 0=0"}[kind])
        last = f"b{i}"
    if draw.random() < 0.3:
        layers.append(f"Nope n 1 1 {last} out")
    head = f"7767517\n{draw.choice((len(layers), len(layers), big))} {draw.choice((n + 1, big))}\n"
    return {"-1": (".param", (head + "\n".join(layers) + "\n").encode()),
            "-2": (".bin", bytes(draw.choice((0, 64, 1 << 16))))}


def keras(draw):
    big = size(draw, 4, 50)
    n = draw.choice((1, 10, 300, 3000))
    kind = draw.randrange(6)

    def layer(cls, name, config, feed=None):
        out = {"module": "keras.layers", "class_name": cls, "config": {"name": name, **config},
               "registered_name": None, "name": name}
        if feed:
            out["inbound_nodes"] = [{"args": [{"class_name": "__keras_tensor__", "config": {
                "shape": [None, 8, 8, 3], "dtype": "float32", "keras_history": [feed, 0, 0]}}], "kwargs": {}}]
        return out

    config = [layer("InputLayer", "i", {"batch_shape": [None, 8, 8, draw.choice((3, big))]})]
    if kind == 0:
        inner = layer("Dense", "d", {"units": big})
        for i in range(draw.choice((10, 31, 200))):
            inner = layer("Sequential", f"s{i}", {"layers": [inner]})
        config.append(inner)
    for i in range(n if kind else 0):
        config.append({
            1: layer("Dense", f"d{i}", {"units": big}),
            2: layer("UpSampling2D", f"u{i}", {"size": [draw.choice((2, big))] * 2}),
            3: layer("RepeatVector", f"r{i}", {"n": big}),
            4: layer("ZeroPadding2D", f"z{i}", {"padding": [[big, 0], [0, 0]]}),
            5: layer("Conv2D", f"c{i}", {"filters": big, "kernel_size": [3, big % 97 + 1]})}[kind])
    if draw.random() < 0.4:
        config.append(layer("Nope", "nope", {}))
    top = layer("Sequential", "top", {"layers": config})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", 8) as z:
        z.writestr("config.json", json.dumps(top))
        z.writestr("metadata.json", '{"keras_version": "3.0.0"}')
        z.writestr("model.weights.h5", b"\x89HDF\r\n\x1a\n")
    return ".keras", out.getvalue()


def graphs(draw):
    """Architecture files: repeats, sizes."""
    big = size(draw, 4, 40)
    node = {"name": "n{i}", "op": draw.choice(("unary", "expand", "tile", "pad", "resize")), "in": ["{x}"],
            "out": ["v{i}"], "attr": draw.choice(({"kind": "relu"}, {"shape": [big, 3, 8, 8]},
                                                  {"repeats": [big, 1, 1, 1]}, {"pad": [big] * 8}))}
    nodes = [{"repeat": draw.choice((3, 1000, 100000)), "as": "i", "x": "x", "nodes": [node]}]
    for i in range(draw.choice((0, 1, 5, 70))):
        nodes = [{"repeat": draw.choice((2, 100)), "as": f"i{i}", "x": "x", "nodes": nodes}]
    return ".json", json.dumps({"infer": 1, "name": "g", "inputs": [
        {"name": "x", "dtype": "F32", "shape": [-1, 3, 8, 8]}], "nodes": nodes, "outputs": ["v1"]}).encode()


KINDS = {"darknet": darknet, "caffe": caffe, "ncnn": ncnn, "keras": keras, "architecture": graphs}
