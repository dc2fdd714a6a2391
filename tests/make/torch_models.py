#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random-weight networks of torchvision and timm for tests/unit/weights/torch_archs.c.

    tests/make/torch_models.py DIR [NAME...]

For each built-in architecture writes DIR/NAME.pth (a state_dict) and
DIR/NAME-io.safetensors: an input and the output that PyTorch gives for it in
eval mode.  The statistics of batch normalisation are random too, so that a
wrong fold shows.  Needs torch, torchvision and safetensors, and timm for names
of its networks."""
import sys

import torch
import torchvision
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F


class LeNet300(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 300)
        self.fc2 = nn.Linear(300, 100)
        self.fc3 = nn.Linear(100, 10)

    def forward(self, x):
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class OptionABlock(nn.Module):
    def __init__(self, inputs, planes):
        super().__init__()
        stride = 1 if inputs == planes else 2
        self.grow = planes - inputs
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.grow:
            side = self.grow // 2
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, side, side))
        return F.relu(y + x)


class OptionA(nn.Module):
    """The CIFAR networks of He et al., names as akamaster has them."""

    def __init__(self, blocks):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        inputs = 16
        for stage in range(3):
            layer = []
            for _ in range(blocks):
                layer.append(OptionABlock(inputs, 16 << stage))
                inputs = 16 << stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


def cifar(name):
    net = getattr(torchvision.models, name)(num_classes=10)
    net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.maxpool = nn.Identity()
    return net


def inception(name, transform_input):
    return getattr(torchvision.models, name)(
        aux_logits=True, transform_input=transform_input, init_weights=False)


class Segmentation(nn.Module):
    """The output that torchvision calls "out", with the auxiliary classifier
    in the file."""

    def __init__(self, name):
        super().__init__()
        more = {} if name.startswith("lraspp") else {"aux_loss": True}
        self.net = torchvision.models.get_model(
            name, weights=None, weights_backbone=None, **more)

    def forward(self, x):
        return self.net(x)["out"]


TORCHVISION = (
    "alexnet vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg13_bn vgg16_bn vgg19_bn "
    "resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d "
    "resnext101_32x8d resnext101_64x4d wide_resnet50_2 wide_resnet101_2 "
    "mobilenet_v2 efficientnet_b0 squeezenet1_0 squeezenet1_1 densenet121 "
    "densenet161 densenet169 densenet201 mobilenet_v3_large "
    "mobilenet_v3_small mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3 "
    "efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4 "
    "efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_s "
    "efficientnet_v2_m efficientnet_v2_l convnext_tiny convnext_small "
    "convnext_base convnext_large regnet_x_400mf regnet_x_800mf "
    "regnet_x_1_6gf regnet_x_3_2gf regnet_x_8gf regnet_x_16gf regnet_x_32gf "
    "regnet_y_400mf regnet_y_800mf regnet_y_1_6gf regnet_y_3_2gf regnet_y_8gf "
    "regnet_y_16gf regnet_y_32gf regnet_y_128gf shufflenet_v2_x0_5 "
    "shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0").split()
SEGMENTATION = (
    "fcn_resnet50 fcn_resnet101 deeplabv3_resnet50 deeplabv3_resnet101 "
    "deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large").split()
VIDEO = "r3d_18 mc3_18 r2plus1d_18 s3d".split()


def timm_net(name):
    import timm
    return timm.create_model(name.removesuffix("-timm"), pretrained=False)


def timm_side(name):
    """The size that the built-in states: timm's own where it has a table of
    blocks, else 224."""
    import timm
    name = name.removesuffix("-timm")
    module = timm.models.model_entrypoint(name).__module__
    own = module.endswith(("efficientnet", "mobilenetv3"))
    return timm.get_pretrained_cfg(name).input_size[1] if own else 224


# Height and width of the input where they are not 224.
SIDES = {"efficientnet_b1": 240, "efficientnet_b2": 288, "efficientnet_b3": 300,
         "efficientnet_b4": 380, "efficientnet_b5": 456, "efficientnet_b6": 528,
         "efficientnet_b7": 600, "efficientnet_v2_s": 384,
         "efficientnet_v2_m": 480, "efficientnet_v2_l": 480,
         "inception_v3": 299, "inception_v3-published": 299}
SIDES |= {name: 520 for name in SEGMENTATION}

MAKERS = {name: getattr(torchvision.models, name) for name in TORCHVISION}
for name in "googlenet", "inception_v3":
    MAKERS[name] = lambda name=name: inception(name, False)
    MAKERS[f"{name}-published"] = lambda name=name: inception(name, True)
for name in SEGMENTATION:
    MAKERS[name] = lambda name=name: Segmentation(name)
for name in VIDEO:
    MAKERS[name] = getattr(torchvision.models.video, name)
MAKERS["lenet-300-100"] = LeNet300
MAKERS["lenet5"] = LeNet5
for depth in 20, 32, 44, 56, 110:
    MAKERS[f"resnet{depth}-cifar"] = (
        lambda blocks=(depth - 2) // 6: OptionA(blocks))
for depth in 18, 34, 50:
    MAKERS[f"resnet{depth}-cifar"] = lambda name=f"resnet{depth}": cifar(name)


def randomise(net):
    """Weights that keep signals of size one, and random statistics."""
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.Conv3d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.uniform_(module.bias, -0.2, 0.2)
        elif isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm)):
            nn.init.uniform_(module.weight, 0.5, 1.0)
            nn.init.uniform_(module.bias, -0.3, 0.3)
        if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d)):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
        for scale in "layer_scale", "gamma":
            if isinstance(getattr(module, scale, None), nn.Parameter):
                nn.init.uniform_(getattr(module, scale), 0.1, 0.5)


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(MAKERS)
    for name in names:
        torch.manual_seed(1)
        net = MAKERS.get(name, lambda: timm_net(name))().eval()
        randomise(net)
        if name.startswith("lenet"):
            shape = (2, 1, 28, 28)
        elif name.endswith("-cifar"):
            shape = (2, 3, 32, 32)
        elif name in VIDEO:
            side = 224 if name == "s3d" else 112
            shape = (1, 3, 16, side, side)
        else:
            side = (SIDES.get(name, 224) if name in MAKERS else
                    timm_side(name))
            shape = (1, 3, side, side)
        x = torch.randn(shape)
        with torch.no_grad():
            y = net(x)
        state = net.net if isinstance(net, Segmentation) else net
        torch.save(state.state_dict(), f"{folder}/{name}.pth")
        save_file({"input": x, "output": y.contiguous()},
                  f"{folder}/{name}-io.safetensors")
        print(name, float(y.abs().max()), flush=True)


main()
