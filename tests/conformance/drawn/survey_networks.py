# SPDX-License-Identifier: Apache-2.0
"""Names of whole networks of PyTorch libraries, and how each is built with random
weights: what torch_survey.py draws from."""
import re

import torch
from torch import nn

import torch_networks as networks


class Logits(nn.Module):
    """A network of transformers, whose outputs are tensors alone."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        y = self.m(x, return_dict=True)
        return tuple(v for v in y.values() if torch.is_tensor(v))


class Tensors(nn.Module):
    """A network whose output is a dictionary of tensors, as a tuple."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        y = self.m(x)
        return tuple(v for v in y.values() if torch.is_tensor(v))


def timm_names():
    import timm
    return timm.list_models()


def timm_build(name, draw, script):
    import timm
    m = timm.create_model(name, pretrained=False, scriptable=script).eval()
    c, h, w = m.default_cfg["input_size"]
    sizes = [(128, 128), (160, 160), (224, 224), (256, 256)]
    if m.default_cfg.get("fixed_input_size"):
        sizes = []
    return m, [(c, *s) for s in sizes] + [(c, h, w)]


def torchvision_names():
    from torchvision import models
    names = []
    for module in (models, models.segmentation, models.video,
                   models.optical_flow):
        names += [module.__name__ + ":" + n
                  for n in models.list_models(module=module)]
    return names


def torchvision_build(name, draw, script):
    from torchvision import models
    module, name = name.split(":")
    more = {}
    if module.endswith("segmentation"):
        more = {"weights_backbone": None}
    if name in ("googlenet", "inception_v3"):
        more = {"init_weights": False, "aux_logits": False}
    m = models.get_model(name, weights=None, **more).eval()
    if module.endswith("segmentation"):
        return Tensors(m), [(3, 96, 128)]
    if module.endswith("video"):
        return m, [(3, 8, 64, 64), (3, 16, 112, 112), (3, 16, 224, 224)]
    return m, [(3, 128, 128), (3, 224, 224), (3, 299, 299)]


def smp_names():
    return ["%s:%d" % (d, i) for d in networks.DECODERS for i in range(400)]


def smp_build(name, draw, script):
    kept, networks.DECODERS = networks.DECODERS, (name.split(":")[0],)
    try:
        m, text, x, _ = networks.draw_smp(draw)
    finally:
        networks.DECODERS = kept
    m.drawn = text
    return m, [tuple(x[0].shape[1:])]


def pytorchcv_names():
    from pytorchcv.model_provider import _models
    return sorted(n for n in _models if not re.search(
        "cifar|svhn|cub|coco|wrn1001|resnet1001|resnet1202|oct|crnn|jasper|quartz",
        n))


def pytorchcv_build(name, draw, script):
    from pytorchcv.model_provider import get_model
    m = get_model(name, pretrained=False).eval()
    h, w = getattr(m, "in_size", None) or (224, 224)
    c = getattr(m, "in_channels", 3)
    if max(h, w) > 320:
        return m, [(c, 128, 128), (c, 192, 256), (c, h, w)]
    return m, [(c, h, w)]


def transformers_names():
    from transformers.models.auto import modeling_auto as auto
    names = []
    for task in ("IMAGE_CLASSIFICATION", "SEMANTIC_SEGMENTATION",
                 "DEPTH_ESTIMATION", "OBJECT_DETECTION", "IMAGE_TO_IMAGE"):
        table = getattr(auto, "MODEL_FOR_%s_MAPPING_NAMES" % task, {})
        names += [task + ":" + k for k in table]
    return names


def transformers_build(name, draw, script):
    import transformers
    task, kind = name.split(":")
    config = transformers.AutoConfig.for_model(kind)
    if getattr(config, "num_hidden_layers", 0) and not hasattr(
            config, "depths"):
        try:
            config.num_hidden_layers = min(config.num_hidden_layers, 4)
        except Exception:  # some state it otherwise
            pass
    words = "".join(w.capitalize() for w in task.split("_"))
    auto = getattr(transformers, "AutoModelFor" + words)
    m = auto.from_config(config, attn_implementation="eager").eval()
    side = getattr(config, "image_size", None)
    c = getattr(config, "num_channels", 3)
    sizes = [(c, 128, 128), (c, 224, 224)]
    if isinstance(side, int):
        sizes = [(c, side, side)] + sizes
    elif isinstance(side, (list, tuple)) and len(side) == 2:
        sizes = [(c, *side)] + sizes
    return Logits(m), sizes


NAMES = {"timm": timm_names, "torchvision": torchvision_names,
         "smp": smp_names, "pytorchcv": pytorchcv_names,
         "transformers": transformers_names}
BUILD = {"timm": timm_build, "torchvision": torchvision_build,
         "smp": smp_build, "pytorchcv": pytorchcv_build,
         "transformers": transformers_build}
