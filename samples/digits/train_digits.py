# SPDX-License-Identifier: Apache-2.0
"""Trains the sample network of the quickstart on MNIST.

usage: train_digits.py MNIST_DIR OUT.pth   (needs torch)

MNIST_DIR holds the four idx.gz files.  Three 3x3 convolutions with batch
normalisation, global average pooling and one dense layer: 24,000 weights.
digits.json is its architecture.  The checkpoint holds what a training script
saves: the weights with the statistics of batch normalisation, and where the
training stood."""
import gzip
import sys

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(1)
EPOCHS, BATCH = 10, 128


def idx(path):
    data = gzip.open(path).read()
    rank = data[3]
    shape = np.frombuffer(data, '>i4', rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load(folder, part):
    x = torch.tensor(idx(f'{folder}/{part}-images-idx3-ubyte.gz'))
    y = torch.tensor(idx(f'{folder}/{part}-labels-idx1-ubyte.gz')).long()
    return x[:, None].float() / 255, y


def net():
    def block(c, k):
        return [nn.Conv2d(c, k, 3, padding=1, bias=False), nn.BatchNorm2d(k),
                nn.ReLU()]
    return nn.Sequential(*block(1, 16), nn.MaxPool2d(2), *block(16, 32),
                         nn.MaxPool2d(2), *block(32, 64),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, 10))


def augment(x):
    """Small turns, shifts and changes of size: drawn digits vary more than
    MNIST's, which are centred and of one size."""
    n = len(x)
    a = (torch.rand(n) - 0.5) * 0.5
    s = 1 / (1 + (torch.rand(n) - 0.5) * 0.5)
    t = (torch.rand(n, 2) - 0.5) * 0.25
    theta = torch.stack([torch.stack([s * a.cos(), -s * a.sin(), t[:, 0]], 1),
                         torch.stack([s * a.sin(), s * a.cos(), t[:, 1]], 1)],
                        1)
    return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False),
                         align_corners=False)


def main():
    folder, out = sys.argv[1:]
    x, y = load(folder, 'train')
    tx, ty = load(folder, 't10k')
    m = net()
    opt = torch.optim.AdamW(m.parameters(), 3e-3, weight_decay=1e-2)
    steps = EPOCHS * (len(x) // BATCH)
    policy = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, steps)
    for epoch in range(EPOCHS):
        m.train()
        order = torch.randperm(len(x))
        for i in range(len(x) // BATCH):
            b = order[i * BATCH:(i + 1) * BATCH]
            loss = F.cross_entropy(m(augment(x[b])), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            policy.step()
        m.eval()
        with torch.no_grad():
            right = sum(int((m(tx[i:i + 1000]).argmax(1) ==
                             ty[i:i + 1000]).sum())
                        for i in range(0, len(tx), 1000))
        print(f'epoch {epoch + 1}: loss {loss.item():.4f}, '
              f'{right} of {len(tx)} test images right', flush=True)
    torch.save({'state_dict': m.state_dict(), 'epoch': EPOCHS,
                'test_right': right}, out)


main()
