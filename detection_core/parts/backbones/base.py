"""The outputs of backbones."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf


class Endpoints(NamedTuple):
    """Features of a backbone for a neck.

    Attributes:
        levels: level -> last features [B, H / 2^level, W / 2^level, channels] of that stride.
        expanded: level -> expanded features of the same stride, inside the block that halves it; empty for
            backbones without these blocks.
    """

    levels: Mapping[int, tf.Tensor]
    expanded: Mapping[int, tf.Tensor] = {}
