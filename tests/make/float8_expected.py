# SPDX-License-Identifier: Apache-2.0
"""Prints what conversions between F32 and F8_E4M3 give by PyTorch's
torch.float8_e4m3fn: the value of each code, then codes of values around each
middle of two neighbours, and at the ends.

usage: float8_expected.py > tests/unit/kernels/float8_expected.h

PyTorch makes NaN of what is beyond 464; here it becomes 448 of its sign."""
import struct

import torch


def bits(value):
    return struct.unpack('<I', struct.pack('<f', value))[0]


def of(code):
    return struct.unpack('<f', struct.pack('<I', code))[0]


def value(code):
    return torch.tensor([code], dtype=torch.uint8).view(
        torch.float8_e4m3fn).float().item()


def code(b):
    x = of(b)
    if x == x and abs(x) > 448:
        return 0x7e | b >> 24 & 0x80
    t = torch.tensor([x], dtype=torch.float32).to(torch.float8_e4m3fn)
    return t.view(torch.uint8).item()


def rows(name, kind, items, each):
    print('static const %s %s[] = {' % (kind, name))
    for i in range(0, len(items), each):
        print('    ' + ' '.join(items[i:i + each]))
    print('};')


def main():
    print('/* SPDX-License-Identifier: Apache-2.0 */')
    print('/* Printed by tests/make/float8_expected.py with PyTorch %s. */'
          % torch.__version__.split('+')[0])
    print('/* clang-format off */')
    values = [value(c) for c in range(256)]
    rows('value_bits', 'uint32_t',
         ['0x%08x,' % (bits(v) if v == v else 0x7fc00000) for v in values], 6)
    cases = []
    for c in range(126):
        middle = bits((values[c] + values[c + 1]) / 2)
        cases += [middle - 1, middle, middle + 1, bits(values[c])]
    for x in (448, 456, 464, 465, 479, 480, 512, 1e9, float('inf'), 0,
              2 ** -10, 2 ** -11, 1e-30, 1e-44):
        cases.append(bits(x))
    cases += [b | 0x80000000 for b in cases]
    rows('cases', 'struct {\n    uint32_t bits;\n    uint8_t code;\n}',
         ['{0x%08x, 0x%02x},' % (b, code(b)) for b in cases], 3)
    print('/* clang-format on */')


main()
