"""Dropout of values and of whole images: by the update in a training, as Keras' own elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import detection_core.detectors
from detection_core.detectors.parts.layers.dropout import Dropout, stochastic_depth
from detection_core.ops.update_draws import update_draws
from tests.support.cases import cases

IMAGES = tf.ones([64, 4, 4, 2])
LAYERS = {"values": lambda: Dropout(0.25, name="drop"), "images": lambda: stochastic_depth(0.25, "drop")}


@cases(*LAYERS)
def test_draws_follow_the_update(*, kind: str) -> None:
    found = []
    for step in (5, 5, 6):
        layer = LAYERS[kind]()  # another process has another layer of the same name
        with update_draws(1, step):
            found.append(layer(IMAGES, training=True).numpy())
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


@cases(*LAYERS)
def test_what_is_kept_is_scaled_up(*, kind: str) -> None:
    with update_draws(1, 5):
        found = LAYERS[kind]()(IMAGES, training=True).numpy()
    assert set(np.unique(found.round(5))) == {0.0, np.float32(4 / 3).round(5)}
    assert np.mean(found > 0) == pytest.approx(0.75, abs=0.2 if kind == "images" else 0.05)
    whole = {len(np.unique(image)) for image in found}
    assert (whole == {1}) == (kind == "images")


def test_nothing_is_dropped_in_inference_and_keras_draws_elsewhere() -> None:
    layer = Dropout(0.5, name="drop")
    with update_draws(1, 5):
        np.testing.assert_array_equal(layer(IMAGES, training=False), IMAGES)
    assert not np.array_equal(layer(IMAGES, training=True), layer(IMAGES, training=True))


def test_a_copy_from_its_config_is_alike() -> None:
    network = tf_keras.Sequential([stochastic_depth(0.25, "drop")])
    (copy,) = tf_keras.Sequential.from_config(network.get_config()).layers
    assert type(copy) is Dropout and (copy.rate, copy.noise_shape) == (0.25, (None, 1, 1, 1))


def test_no_detector_has_another_dropout_or_other_draws() -> None:
    folder = Path(detection_core.detectors.__file__).parent
    others = re.compile(r"layers\.(Spatial|Gaussian|Alpha)?Dropout|tf\.random\.|tf\.nn\.dropout")
    found = [path.name for path in folder.rglob("*.py") if others.search(path.read_text())]
    assert found == ["dropout.py"]
