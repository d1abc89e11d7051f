import numpy as np
import tensorflow as tf
import tf_keras

from detection_core.detectors.parts.necks.bifpn_fusion import COMBINE_METHODS, SHARES, WeightedFusion
from tests.support.cases import cases

MAPS = [np.full((1, 2, 2, 1), value, np.float32) for value in (1.0, 10.0, 100.0)]
WEIGHTS = np.array([[0.5], [-1.0], [1.5]], np.float32)


@cases(  # (0.5 x 1 + 0 x 10 + 1.5 x 100) / (0.5 + 0 + 1.5 + 0.0001)
    ("fast_attention", 150.5 / 2.0001),
    ("weighted_sum", 0.5 - 10.0 + 150.0),
    ("attention", 111.0),
)
def test_maps_are_added_up_by_their_shares(*, method, wanted):
    layer = WeightedFusion(method)
    layer.build([features.shape for features in MAPS])
    layer.combine_weights.assign(WEIGHTS)
    np.testing.assert_allclose(layer(MAPS), np.full((1, 2, 2, 1), wanted), rtol=1e-6)


@cases(*sorted(SHARES))
def test_weights_start_as_one_and_carry_the_name_of_checkpoints(*, method):
    layer = WeightedFusion(method, name="node")
    layer(MAPS)
    (weights,) = layer.trainable_variables
    assert weights.name.split("/")[-1] == "bifpn_combine_weights:0"
    np.testing.assert_array_equal(weights, [[1.0], [1.0], [1.0]])


@cases("fast_attention", "weighted_sum")
def test_weights_are_learnt(*, method):
    layer = WeightedFusion(method)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(MAPS))
    assert np.abs(tape.gradient(total, layer.combine_weights)).min() > 0.0


def test_a_saved_layer_comes_back(tmp_path):
    inputs = [tf_keras.Input((2, 2, 1)) for _ in MAPS]
    network = tf_keras.Model(inputs, WeightedFusion("weighted_sum", name="node")(inputs))
    network.get_layer("node").combine_weights.assign(WEIGHTS)
    network.save(tmp_path / "network.keras")
    again = tf_keras.models.load_model(tmp_path / "network.keras")
    np.testing.assert_array_equal(again(MAPS), network(MAPS))


def test_methods_of_the_schema():
    assert COMBINE_METHODS == ("sum", "fast_attention", "weighted_sum", "attention")
