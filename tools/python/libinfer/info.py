# SPDX-License-Identifier: Apache-2.0
"""Facts of a model's inputs and outputs."""

from typing import NamedTuple, Optional, Tuple


class TensorInfo(NamedTuple):
    """An input or output of a model.  A free size is None, a free rank a shape None."""

    name: str
    dtype: str
    shape: Optional[Tuple[Optional[int], ...]]
