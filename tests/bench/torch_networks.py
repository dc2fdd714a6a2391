# SPDX-License-Identifier: Apache-2.0
"""The networks that gpu_peers.py, train_peers.py and their rivals time, by name:
those of torchvision and timm, and two that neither has.  Where both have a name,
torchvision's is meant; "timm/NAME" is timm's."""
import contextlib

import torch
import torch.nn.functional as F
import torchvision


def twice(inputs, outputs):
    """Two convolutions 3x3 with batch normalisation and ReLU."""
    return torch.nn.Sequential(*[
        layer for a, b in ((inputs, outputs), (outputs, outputs))
        for layer in (torch.nn.Conv2d(a, b, 3, 1, 1, bias=False),
                      torch.nn.BatchNorm2d(b), torch.nn.ReLU())])


class UNet(torch.nn.Module):
    """U-Net (Ronneberger et al., 2015) with padding and batch normalisation."""

    def __init__(self, classes=21, widths=(64, 128, 256, 512, 1024)):
        super().__init__()
        pairs = list(zip(widths, widths[1:]))
        self.first = twice(3, widths[0])
        self.down = torch.nn.ModuleList(twice(a, b) for a, b in pairs)
        self.turn = torch.nn.ModuleList(
            torch.nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.up = torch.nn.ModuleList(
            twice(2 * a, a) for a, _ in reversed(pairs))
        self.last = torch.nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        kept = [self.first(x)]
        for block in self.down:
            kept.append(block(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for turn, block in zip(self.turn, self.up):
            x = block(torch.cat([kept.pop(), turn(x)], 1))
        return self.last(x)


class MeanOfPixels(torch.nn.Module):
    """A network for maps as a classifier: the mean of its output's pixels."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x).mean((2, 3))


class Block(torch.nn.Module):
    """The basic block of He et al. with option A shortcuts."""

    def __init__(self, inputs, planes):
        super().__init__()
        self.stride = 1 if inputs == planes else 2
        self.pad = (planes - inputs) // 2
        self.conv1 = torch.nn.Conv2d(inputs, planes, 3, self.stride, 1,
                                     bias=False)
        self.bn1 = torch.nn.BatchNorm2d(planes)
        self.conv2 = torch.nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(planes)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride == 2:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + x)


class ResNet20(torch.nn.Module):
    """He et al.'s network for CIFAR-10."""

    def __init__(self):
        super().__init__()
        widths = [16] * 4 + [32] * 3 + [64] * 3
        self.conv1 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        self.blocks = torch.nn.Sequential(
            *[Block(a, b) for a, b in zip(widths, widths[1:])])
        self.fc = torch.nn.Linear(64, 10)

    def forward(self, x):
        y = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(y.mean(dim=(2, 3)))


OWN = {"unet": (UNet, (3, 256, 256)), "resnet20": (ResNet20, (3, 32, 32))}


class MainOutput(torch.nn.Module):
    """The main output of a segmentation network, which gives several by name."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


def of_torchvision(name):
    options = {"weights": None}
    segmentation = name in torchvision.models.list_models(
        torchvision.models.segmentation)
    if segmentation:
        options["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        options.update(init_weights=False, aux_logits=False)
    net = torchvision.models.get_model(name, **options)
    if name in torchvision.models.list_models(torchvision.models.video):
        return net, (3, 16, 112, 112)
    if segmentation:
        return MainOutput(net), (3, 512, 512)
    size = 299 if name == "inception_v3" else 224
    return net, (3, size, size)


def network(name):
    """(network in evaluation mode, (channels, sizes) of its input).  Branches
    that timm merges for inference are merged."""
    if name in OWN:
        make, size = OWN[name]
        return make().eval(), size
    if not name.startswith("timm/") and \
            name in torchvision.models.list_models():
        net, size = of_torchvision(name)
        return net.eval(), size
    import timm

    net = timm.create_model(name.removeprefix("timm/"), pretrained=False,
                            exportable=True).eval()
    return net, tuple(net.pretrained_cfg["input_size"])


def for_training(name):
    """(network, size of its input, classes): a classifier, trained as whole."""
    net, size = network(name)
    if name == "unet":
        return MeanOfPixels(net), size, 21
    return net, size, 10 if name == "resnet20" else 1000


def merged(net):
    """Branches that the network's authors merge for inference (RepVGG,
    MobileOne, FastViT) merged, where timm made it; new layers lie on the CPU."""
    if not hasattr(net, "pretrained_cfg"):
        return net
    from timm.utils.model import reparameterize_model

    return reparameterize_model(net)


def seen(name, device, turn=contextlib.nullcontext()):
    """The network and its input's size; running statistics are from noise.  The
    device is used while turn is held."""
    net, size = network(name)
    for module in net.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None
    with turn, torch.no_grad():
        net = net.to(device).train()
        for _ in range(3):
            net(torch.randn(32 if len(size) == 3 and size[1] < 400 else 4,
                            *size, device=device))
        net = net.eval().cpu()
        if device != "cpu":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    return merged(net), size
