# SPDX-License-Identifier: Apache-2.0
"""What the writers of hostile files share."""
import struct


def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def nested(field, data):
    if isinstance(data, str):
        data = data.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def size(draw, low, high):
    """A size between two powers of two, most of them near one."""
    return max(1, 2 ** draw.randint(low, high) + draw.choice((0, 0, 0, -1, 1)))


def shape(draw, elements, most=4):
    """A shape of about so many elements."""
    rank = draw.randint(1, most)
    dims = []
    for i in range(rank - 1):
        d = draw.choice((1, 2, 3, 4, 16, 64, 256))
        d = d if d <= elements else 1
        dims.append(d)
        elements = max(1, elements // d)
    dims.append(elements)
    draw.shuffle(dims)
    return dims


def u32(n):
    return struct.pack("<I", n & 0xffffffff)


def i64(n):
    return struct.pack("<q", n)
