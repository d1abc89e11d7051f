"""What a seed settles, and what a deterministic training needs of TensorFlow."""

import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.training.reproducible import Reproducibility


def first_weights(seed):
    Reproducibility(seed=seed, seeds_weights=True).set_up()
    layer = tf_keras.layers.Dense(8)
    layer.build((None, 8))
    return np.asarray(layer.kernel)


def test_the_first_weights_follow_the_seed():
    first, again, other = (first_weights(seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_nothing_of_the_process_is_touched_unless_it_is_asked_for(monkeypatch):
    called: list[str] = []
    monkeypatch.setattr(tf_keras.utils, "set_random_seed", lambda seed: called.append(f"seed {seed}"))
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: called.append("order"))
    Reproducibility(seed=3).set_up()
    assert not called
    Reproducibility(seed=3, seeds_weights=True, deterministic=True).set_up()
    assert called == ["seed 3", "order"]
