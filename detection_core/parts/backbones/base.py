"""What every backbone gives to a neck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf


class Endpoints(NamedTuple):
    """Features of a backbone that a neck may take.

    Attributes:
        levels: level -> last features [B, H / 2^level, W / 2^level, channels] of that stride.
        expanded: level -> features of the same stride inside the block that halves it, after its expansion;
            empty for backbones without these blocks.
    """

    levels: Mapping[int, tf.Tensor]
    expanded: Mapping[int, tf.Tensor] = {}
