"""What two trainings of one config have in common: what they draw at random, and the order of their sums."""

from __future__ import annotations

import dataclasses

import tensorflow as tf
import tf_keras


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproducibility:
    """What is alike in every training of a config.

    Attributes:
        seed: of the order of the examples and of their augmentation.
        seeds_weights: the first weights follow it too, as does whatever else is drawn.
        deterministic: operations add up in the same order each time, so that no last bit differs.
    """

    seed: int = 0
    seeds_weights: bool = False
    deterministic: bool = False

    def set_up(self) -> None:
        """Seed and set this process, for good; call it before the model is built."""
        if self.seeds_weights:
            tf_keras.utils.set_random_seed(self.seed)
        if self.deterministic:
            tf.config.experimental.enable_op_determinism()
