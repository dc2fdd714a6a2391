# SPDX-License-Identifier: Apache-2.0
"""Networks of smaller packages of PyPI, by name: what torch_survey.py draws from
besides the libraries of survey_networks.py.

Each table gives {name: (builder, sizes of the input without the batch)}."""
import importlib

import torch
from torch import nn


class Listed(nn.Module):
    """A network whose outputs are nested, as a tuple of tensors."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return tensors_of(self.m(x))


def tensors_of(y):
    if torch.is_tensor(y):
        return (y,)
    if isinstance(y, dict):
        y = tuple(y.values())
    if isinstance(y, (tuple, list)):
        return tuple(t for v in y for t in tensors_of(v))
    return ()


def picture(side=128, channels=3):
    return [(channels, side, side)]


def monai():
    from monai.networks import nets
    plain = dict(spatial_dims=2, in_channels=3, out_channels=4)
    volume = dict(spatial_dims=3, in_channels=1, out_channels=3)
    steps = dict(channels=(8, 16, 32), strides=(2, 2))
    table = {}

    def add(kind, text, sizes, **options):
        if hasattr(nets, kind):
            table[kind + text] = (
                lambda: Listed(getattr(nets, kind)(**options)), sizes)

    for text, dims, sizes in (("2", plain, picture(64)),
                              ("3", volume, [(1, 32, 32, 32)])):
        add("UNet", text, sizes, **dims, **steps, num_res_units=2)
        add("UNet", text + "plain", sizes, **dims, **steps, act="relu",
            norm="batch")
        add("AttentionUnet", text, sizes, **dims, **steps)
        add("BasicUNetPlusPlus", text, sizes, **dims,
            features=(8, 8, 16, 16, 32, 8))
        add("BasicUNet", text, sizes, **dims, features=(8, 8, 16, 16, 32, 8))
        add("SegResNet", text, sizes, **dims, init_filters=8)
        add("SegResNetDS", text, sizes, **dims, init_filters=8)
        add("VNet", text, sizes, **dims)
        add("DynUNet", text, sizes, **dims, kernel_size=[3, 3, 3],
            strides=[1, 2, 2], upsample_kernel_size=[2, 2])
        add("HighResNet", text, sizes, **dims)
        add("DenseNet121", text, sizes, **dims)
        add("MedNeXtS", text, sizes, **dims)
        add("SwinUNETR", text, picture(64) if text == "2" else
            [(1, 64, 64, 64)], **dims, feature_size=12)
        add("UNETR", text, picture(64) if text == "2" else [(1, 32, 32, 32)],
            **dims, img_size=64 if text == "2" else 32, hidden_size=96,
            mlp_dim=192, num_heads=4)
        add("AutoEncoder", text, sizes, **dims, **steps)
        add("AHNet", text, picture(64) if text == "2" else [(1, 64, 64, 64)],
            **dims)
        add("SEResNet50", text, sizes, spatial_dims=dims["spatial_dims"],
            in_channels=dims["in_channels"], num_classes=7)
        add("LocalNet", text, sizes, **dims, num_channel_initial=8,
            extract_levels=(0, 1, 2))
        add("ResNetFeatures", text, sizes, model_name="resnet18",
            pretrained=False, spatial_dims=dims["spatial_dims"],
            in_channels=dims["in_channels"])
    add("FlexibleUNet", "", picture(), in_channels=3, out_channels=2,
        backbone="efficientnet-b0")
    add("EfficientNetBN", "", picture(), model_name="efficientnet-b0",
        pretrained=False)
    add("ViT", "", picture(96), in_channels=3, img_size=96, patch_size=16,
        spatial_dims=2, hidden_size=96, mlp_dim=192, num_heads=4,
        num_layers=3, classification=True)
    add("ViTAutoEnc", "", picture(96), in_channels=3, img_size=96,
        patch_size=16, spatial_dims=2, hidden_size=96, mlp_dim=192,
        num_heads=4, num_layers=3)
    add("HoVerNet", "", picture(256))
    add("QuickNAT", "", picture(64), num_classes=5, num_channels=3)
    add("Classifier", "", picture(64), in_shape=(3, 64, 64), classes=5,
        channels=(8, 16), strides=(2, 2))
    add("Regressor", "", picture(64), in_shape=(3, 64, 64), out_shape=(2,),
        channels=(8, 16), strides=(2, 2))
    add("Generator", "", [(24,)], latent_shape=(24,), start_shape=(16, 4, 4),
        channels=(8, 4, 1), strides=(2, 2, 1))
    add("MILModel", "", [(4, 3, 64, 64)], num_classes=3, pretrained=False,
        mil_mode="att")
    add("FullyConnectedNet", "", [(12,)], in_channels=12, out_channels=3,
        hidden_channels=[8, 16])
    return table


def spandrel():
    """Restoration of pictures, each class with its defaults."""
    import pkgutil

    from spandrel import architectures
    table = {}
    for found in pkgutil.iter_modules(architectures.__path__):
        name = found.name
        try:
            arch = importlib.import_module("spandrel.architectures." + name)
        except Exception:  # it needs more packages
            continue
        for attribute, kind in vars(arch).items():
            if isinstance(kind, type) and issubclass(kind, nn.Module):
                table[name + ":" + attribute] = (
                    lambda kind=kind: Listed(kind()),
                    [(3, 64, 64), (1, 64, 64), (4, 64, 64), (3, 128, 128),
                     (3, 256, 256), (3, 512, 512)])
    return table


def pretrainedmodels():
    import pretrainedmodels as p
    return {n: (lambda n=n: p.__dict__[n](num_classes=1000, pretrained=None),
                [(3, 224, 224), (3, 299, 299), (3, 331, 331)])
            for n in p.model_names}


def efficientnet_pytorch():
    from efficientnet_pytorch import EfficientNet
    return {n: (lambda n=n: EfficientNet.from_name(n), picture(224))
            for n in ["efficientnet-b%d" % i for i in range(5)]}


def facenet_pytorch():
    import facenet_pytorch as f
    from facenet_pytorch.models import mtcnn
    table = {"InceptionResnetV1": (
        lambda: f.InceptionResnetV1(pretrained=None, classify=True,
                                    num_classes=9), picture(160)),
        "InceptionResnetV1:embedding": (
        lambda: f.InceptionResnetV1(pretrained=None), picture(160))}
    for n, side in (("PNet", 48), ("RNet", 24), ("ONet", 48)):
        table[n] = (lambda n=n: Listed(getattr(mtcnn, n)(pretrained=False)),
                    picture(side))
    return table


def torchaudio():
    from torchaudio import models as m
    return {
        "ConvTasNet": (lambda: m.ConvTasNet(num_sources=2, msk_num_layers=4,
                                            msk_num_stacks=2), [(1, 4000)]),
        "Wav2Letter:waveform": (lambda: m.Wav2Letter(num_classes=20),
                                [(1, 8000)]),
        "Wav2Letter:mfcc": (lambda: m.Wav2Letter(
            num_classes=20, input_type="mfcc", num_features=40), [(40, 200)]),
        "DeepSpeech": (lambda: m.DeepSpeech(n_feature=64, n_hidden=96,
                                            n_class=20), [(1, 50, 64)]),
        "wav2vec2_small": (lambda: Listed(m.wav2vec2_model(
            "layer_norm", None, True, 96, 0.0, 64, 4, 2, 4, 0.0, 0.0, 128,
            0.0, 0.0, True, 0.0, 20)), [(4000,)]),
        "wav2vec2_group": (lambda: Listed(m.wav2vec2_model(
            "group_norm", None, False, 96, 0.0, 64, 4, 2, 4, 0.0, 0.0, 128,
            0.0, 0.0, False, 0.0, 20)), [(4000,)]),
        "Tacotron2:encoder": (lambda: m.Tacotron2().postnet, [(80, 60)]),
        "HDemucs": (lambda: m.HDemucs(["a", "b"], channels=16), [(2, 22050)]),
        "MelResNet": (lambda: m.wavernn.MelResNet(), [(128, 40)]),
        "UpsampleNetwork": (lambda: Listed(m.wavernn.UpsampleNetwork(
            [4, 4, 16])), [(128, 24)]),
    }


def kornia():
    from kornia import contrib, feature, filters
    table = {}

    def add(name, build, sizes):
        table[name] = (lambda: Listed(build()), sizes)
    patch = picture(32, 1)
    for n in ("HardNet", "HyNet", "TFeat", "SOSNet"):
        add(n, lambda n=n: getattr(feature, n)(pretrained=False), patch)
    add("HardNet8", lambda: feature.HardNet8(pretrained=False), patch)
    add("OriNet", lambda: feature.OriNet(pretrained=False), patch)
    add("AffNet", lambda: feature.LAFAffNetShapeEstimator(
        pretrained=False).features, patch)
    add("KeyNet", lambda: feature.KeyNet(pretrained=False), picture(64, 1))
    add("DeFMO", lambda: feature.DeFMO(pretrained=False), picture(64, 6))
    add("DISK", lambda: feature.DISK().unet, picture(64))
    add("MobileViT", lambda: contrib.MobileViT(mode="xxs"), picture(256))
    add("VisionTransformer", lambda: contrib.VisionTransformer(
        image_size=64, patch_size=16, embed_dim=64, depth=2, num_heads=4),
        picture(64))
    add("TinyViT", lambda: importlib.import_module(
        "kornia.contrib.models.tiny_vit").TinyViT(img_size=224),
        picture(224))
    add("EfficientViT", lambda: importlib.import_module(
        "kornia.contrib.models.efficient_vit.backbone"
    ).efficientvit_backbone_b0(), picture(128))
    add("Sobel", lambda: filters.Sobel(), picture(40))
    add("GaussianBlur2d", lambda: filters.GaussianBlur2d((5, 5), (1.5, 1.5)),
        picture(40))
    add("Canny", lambda: filters.Canny(), picture(40))
    add("Laplacian", lambda: filters.Laplacian(5), picture(40))
    add("MedianBlur", lambda: filters.MedianBlur((3, 3)), picture(40))
    add("UnsharpMask", lambda: filters.UnsharpMask((5, 5), (1.5, 1.5)),
        picture(40))
    add("BlurPool2D", lambda: filters.BlurPool2D(3, 2), picture(40))
    add("MaxBlurPool2D", lambda: filters.MaxBlurPool2D(3, 2), picture(40))
    add("CornerHarris", lambda: feature.CornerHarris(0.05), picture(40, 1))
    add("SIFTDescriptor", lambda: feature.SIFTDescriptor(32), patch)
    add("MKDDescriptor", lambda: feature.MKDDescriptor(32), patch)
    return table


def lightly():
    from lightly.models import ResNetGenerator
    from lightly.models.modules import heads
    table = {n: (lambda n=n: ResNetGenerator(n, num_splits=0), picture(32))
             for n in ("resnet-9", "resnet-18", "resnet-34", "resnet-50")}
    table["SimCLR"] = (lambda: nn.Sequential(
        ResNetGenerator("resnet-9"), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        heads.SimCLRProjectionHead(10, 16, 8)), picture(32))
    return table


def torchxrayvision():
    import torchxrayvision as x
    return {"DenseNet": (lambda: x.models.DenseNet(weights=None),
                         picture(224, 1)),
            "ResNetAE": (lambda: Listed(x.autoencoders._ResNetAE(
                x.autoencoders.Bottleneck, x.autoencoders.DeconvBottleneck,
                [3, 4, 6, 3], 1)), picture(224, 1))}


def doctr():
    from doctr import models as m
    table = {}
    for module in ("classification", "detection", "recognition"):
        part = getattr(m, module)
        for n in dir(part):
            f = getattr(part, n)
            if not callable(f) or isinstance(f, type) or n.startswith("_") or \
                    n.endswith("predictor"):
                continue
            more = {} if module == "classification" else {"exportable": True}
            if module == "detection":
                more["pretrained_backbone"] = False
            sizes = {"classification": picture(32) + picture(128),
                     "detection": picture(256) + picture(1024),
                     "recognition": [(3, 32, 128)]}[module]
            table[n] = (lambda f=f, more=more: Listed(f(pretrained=False,
                                                        **more)), sizes)
    return table


def easyocr():
    from easyocr import craft
    from easyocr.model import model, vgg_model

    class Recognition(nn.Module):
        def __init__(self, m):
            super().__init__()
            self.m = m

        def forward(self, x):
            return self.m(x, None)
    return {
        "CRAFT": (lambda: Listed(craft.CRAFT(pretrained=False)), picture(64)),
        "vgg_model": (lambda: Recognition(vgg_model.Model(1, 64, 64, 40)),
                      [(1, 64, 160)]),
        "model": (lambda: Recognition(model.Model(1, 64, 64, 40)),
                  [(1, 64, 160)])}


def effdet():
    import effdet as e
    from effdet.config import model_config
    return {n: (lambda n=n: Listed(e.create_model(
        n, bench_task="", pretrained=False, pretrained_backbone=False)),
        [(3, 512, 512), (3, 640, 640), (3, 768, 768)])
        for n in model_config.efficientdet_model_param_dict
        if not any(b in n for b in ("d3", "d4", "d5", "d6", "d7", "q2"))}


TABLES = {t.__name__: t for t in (
    monai, spandrel, pretrainedmodels, efficientnet_pytorch, facenet_pytorch,
    torchaudio, kornia, lightly, torchxrayvision, doctr, easyocr, effdet)}


def names_of(library):
    return sorted(TABLES[library]())


def build(library, name):
    make, sizes = TABLES[library]()[name]
    return make().eval(), sizes
