"""Weights of another network, by name and shape."""

import logging

import numpy as np
import pytest
import tf_keras

from detection_core.artifacts import detector as layout
from detection_core.data.label_map import format_label_map, label_map_from_names
from detection_core.errors import ModelError
from detection_core.storage import files
from detection_core.training.warm_start import check_same_classes, copy_matching_weights


def network(classes, prefix=""):
    inputs = tf_keras.Input([4])
    x = tf_keras.layers.Dense(3, name=f"{prefix}body")(inputs)
    return tf_keras.Model(inputs, tf_keras.layers.Dense(classes, name=f"{prefix}head")(x))


def test_what_fits_is_copied_and_the_rest_named(caplog):
    source, target = network(2), network(5)
    head = target.get_layer("head").kernel.numpy()
    with caplog.at_level(logging.INFO):
        assert copy_matching_weights(source, target) == 2
    np.testing.assert_array_equal(target.get_layer("body").kernel, source.get_layer("body").kernel)
    np.testing.assert_array_equal(target.get_layer("head").kernel, head)
    assert "2 weights copied, 2 start anew: head/kernel, head/bias" in caplog.text
    with pytest.raises(ModelError, match=r"there: .*same family.*none of the 4 weights"):
        copy_matching_weights(network(2, "other_"), network(2), where="there")

    def deep(width):
        x = inputs = tf_keras.Input([4])
        x = tf_keras.layers.Dense(3, name="body")(x)
        for number in range(6):
            x = tf_keras.layers.Dense(width, name=f"layer_{number}")(x)
        return tf_keras.Model(inputs, x)

    with caplog.at_level(logging.INFO):
        assert copy_matching_weights(deep(5), deep(2)) == 2
    assert "12 start anew: layer_0/kernel" in caplog.text and "layer_2/bias and 6 more" in caplog.text


def test_a_deployed_detector_of_other_classes_is_refused_naming_them(tmp_path):
    deployed, labels = tmp_path / "deployed", tmp_path / "label_map.pbtxt"
    files.write_text(str(deployed / "saved_model.pb"), "graph")
    own = layout.extra_file(str(deployed), layout.LABEL_MAP)
    files.write_text(own, format_label_map(label_map_from_names(["cat", "dog"])))
    files.write_text(str(labels), format_label_map(label_map_from_names(["cat", "dog"])))
    check_same_classes(str(deployed), str(labels))
    for names, message in (
        (["dog", "cat"], "class 1: cat deployed, dog in the data; class 2: dog deployed, cat"),
        (["cat", "dog", "owl"], "class 3: none deployed, owl in the data"),
    ):
        files.write_text(str(labels), format_label_map(label_map_from_names(names)))
        with pytest.raises(ModelError, match=message):
            check_same_classes(str(deployed), str(labels))
