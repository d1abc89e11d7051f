import numpy as np
import tf_keras

from detection_core.detectors.parts.layers.layer_hyperparams import LayerHyperparams
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.detectors.parts.necks.fpn import FpnOptions, feature_pyramid
from tests.support.cases import cases

LAYERS = NetworkLayers(hyperparams=LayerHyperparams(activation="none"))


@cases(False, True)
def test_pyramid_of_an_input_whose_sizes_are_no_powers_of_two(*, use_depthwise):
    levels = {3: tf_keras.Input((19, 13, 8)), 4: tf_keras.Input((10, 7, 12)), 5: tf_keras.Input((5, 4, 16))}
    options = FpnOptions(min_level=3, max_level=7, channels=6, use_depthwise=use_depthwise)
    maps = feature_pyramid(levels, LAYERS, options)
    shapes = [tuple(features.shape[1:]) for features in maps]
    assert shapes == [(19, 13, 6), (10, 7, 6), (5, 4, 6), (3, 2, 6), (2, 1, 6)]


def test_a_finer_level_is_its_projection_plus_the_coarser_level_repeated():
    levels = {2: tf_keras.Input((4, 4, 2)), 3: tf_keras.Input((2, 2, 3))}
    options = FpnOptions(min_level=2, max_level=3, backbone_max_level=3, channels=2)
    network = tf_keras.Model(list(levels.values()), feature_pyramid(levels, LAYERS, options))
    inner = tf_keras.Model(network.inputs, network.get_layer("fpn_add_2").output)
    draw = np.random.default_rng(0)
    fine = draw.standard_normal((1, 4, 4, 2)).astype(np.float32)
    coarse = draw.standard_normal((1, 2, 2, 3)).astype(np.float32)
    above = coarse @ network.get_layer("fpn_lateral_3").kernel.numpy()[0, 0]
    wanted = fine @ network.get_layer("fpn_lateral_2").kernel.numpy()[0, 0]
    wanted = wanted + above.repeat(2, axis=1).repeat(2, axis=2)
    np.testing.assert_allclose(inner([fine, coarse]), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(network([fine, coarse])[1], above, rtol=1e-5, atol=1e-5)
