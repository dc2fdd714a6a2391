#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random-weight networks of torchvision for tests/unit/weights/torch_archs.c.

    tests/make/torch_models.py DIR [NAME...]

For each built-in architecture writes DIR/NAME.pth (a state_dict) and
DIR/NAME-io.safetensors: an input and the output that PyTorch gives for it in
eval mode.  The statistics of batch normalisation are random too, so that a
wrong fold shows.  Needs torch, torchvision and safetensors."""
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


def googlenet(transform_input):
    return torchvision.models.googlenet(
        aux_logits=True, transform_input=transform_input, init_weights=False)


TORCHVISION = (
    "alexnet vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg13_bn vgg16_bn vgg19_bn "
    "resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d "
    "resnext101_32x8d resnext101_64x4d wide_resnet50_2 wide_resnet101_2 "
    "mobilenet_v2 efficientnet_b0 squeezenet1_0 squeezenet1_1 densenet121 "
    "densenet161 densenet169 densenet201").split()

MAKERS = {name: getattr(torchvision.models, name) for name in TORCHVISION}
MAKERS["googlenet"] = lambda: googlenet(False)
MAKERS["googlenet-published"] = lambda: googlenet(True)
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
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.uniform_(module.bias, -0.2, 0.2)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.0)
            nn.init.uniform_(module.bias, -0.3, 0.3)
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(MAKERS)
    for name in names:
        torch.manual_seed(1)
        net = MAKERS[name]().eval()
        randomise(net)
        if name.startswith("lenet"):
            shape = (2, 1, 28, 28)
        elif name.endswith("-cifar"):
            shape = (2, 3, 32, 32)
        else:
            shape = (1, 3, 224, 224)
        x = torch.randn(shape)
        with torch.no_grad():
            y = net(x)
        torch.save(net.state_dict(), f"{folder}/{name}.pth")
        save_file({"input": x, "output": y.contiguous()},
                  f"{folder}/{name}-io.safetensors")
        print(name, float(y.abs().max()), flush=True)


main()
