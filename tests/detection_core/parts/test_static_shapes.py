"""Networks built by computed shapes are those that Keras traces."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.parts.layers import static_shapes
from detection_core.quantization.rewriting import rewrite
from tests.support import center_net_goldens, two_stage
from tests.support.detectors import family_config


def configured(family: str, size: int = 64):
    text = family_config(family).replace("64", str(size))
    return lambda: build_detector(parse_pipeline_config(text).model)


def in_few_bits():
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        return configured("plain")()
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


def two_stages():
    with two_stage.tiny_extractor():
        return two_stage.build()


def _outputs(layer):
    """Return shape and dtype of each tensor that each call of a layer returned."""
    tensors = tf.nest.flatten([node.outputs for node in layer.inbound_nodes])
    return [(tensor.shape.as_list(), tensor.dtype) for tensor in tensors]


BUILT = {
    "ssd": configured("ssd"), "ssd, odd size": configured("ssd", size=75),
    "efficientdet": configured("efficientdet"), "bfloat16": in_few_bits,
    "center_net": center_net_goldens.build_small,
    "center_net, mobilenet": lambda: center_net_goldens.build_small("mobilenet_v2_fpn"),
    "faster_rcnn": two_stages,
    "quantized": lambda: rewrite(configured("plain")(), QuantizationOptions(delay=0)).model,
}  # fmt: skip


@pytest.mark.parametrize("name", BUILT)
def test_layers_shapes_dtypes_and_variables_are_those_of_a_traced_network(name, monkeypatch):
    built = BUILT[name]().networks
    monkeypatch.setattr(static_shapes, "_is_known", lambda _: False)
    traced = BUILT[name]().networks
    assert built.keys() == traced.keys()
    for part, network in built.items():
        for ours, theirs in zip(network.layers, traced[part].layers, strict=True):
            assert (ours.name, type(ours)) == (theirs.name, type(theirs))
            assert (found := _outputs(ours)) and found == _outputs(theirs), ours.name
        for ours, theirs in zip(network.variables, traced[part].variables, strict=True):
            assert (ours.name, ours.dtype, ours.trainable) == (theirs.name, theirs.dtype, theirs.trainable)
            np.testing.assert_array_equal(ours, theirs, ours.name)


def test_only_declared_classes_are_left_untraced_and_only_inside():
    class Halved(tf_keras.layers.Activation):
        """Says that it keeps its input's shape, and does not."""

        def call(self, inputs: tf.Tensor) -> tf.Tensor:
            return inputs[:, ::2]

    image = tf_keras.Input((8, 8, 3))
    with static_shapes.static_shapes():
        assert Halved("relu")(image).shape == (None, 4, 8, 3)
        static_shapes.has_static_shape(Halved)
        assert Halved("relu")(image).shape == (None, 8, 8, 3)
    assert Halved("relu")(image).shape == (None, 4, 8, 3)
