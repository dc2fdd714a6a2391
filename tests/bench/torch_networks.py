# SPDX-License-Identifier: Apache-2.0
"""The networks that gpu_peers.py and torch_rival.py time, by name: those of
torchvision and timm.  Where both have a name, torchvision's is meant; "timm/NAME"
is timm's."""
import torch
import torchvision


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
    if not name.startswith("timm/") and \
            name in torchvision.models.list_models():
        net, size = of_torchvision(name)
        return net.eval(), size
    import timm

    net = timm.create_model(name.removeprefix("timm/"), pretrained=False,
                            exportable=True).eval()
    return net, tuple(net.pretrained_cfg["input_size"])


def merged(net):
    """Branches that the network's authors merge for inference (RepVGG,
    MobileOne, FastViT) merged, where timm made it; new layers lie on the CPU."""
    if not hasattr(net, "pretrained_cfg"):
        return net
    from timm.utils.model import reparameterize_model

    return reparameterize_model(net)


def seen(name, device):
    """The network and its input's size; running statistics are from noise."""
    net, size = network(name)
    net = net.to(device)
    for module in net.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None
    net.train()
    with torch.no_grad():
        for _ in range(3):
            net(torch.randn(32 if len(size) == 3 and size[1] < 400 else 4,
                            *size, device=device))
    return merged(net.eval()).to(device), size
