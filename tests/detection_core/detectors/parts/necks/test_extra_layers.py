import tf_keras

from detection_core.detectors.parts.layers.layer_hyperparams import (
    BatchNormOptions,
    LayerHyperparams,
    Regularizer,
)
from detection_core.detectors.parts.layers.network_layers import NetworkLayers
from detection_core.detectors.parts.necks.extra_layers import ExtraLayersOptions, extra_layers
from tests.support.cases import cases

HYPERPARAMS = LayerHyperparams(batch_norm=BatchNormOptions(), regularizer=Regularizer(kind="l2", weight=1.0))


@cases(False, True)
def test_each_map_halves_the_one_before(*, use_depthwise):
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    maps = [tf_keras.Input((19, 19, 24)), tf_keras.Input((10, 10, 32))]
    options = ExtraLayersOptions(depth_multiplier=0.25, min_depth=40, use_depthwise=use_depthwise)
    found = [tuple(features.shape[1:]) for features in extra_layers(maps, layers, options)]
    assert found == [(19, 19, 24), (10, 10, 32), (5, 5, 128), (3, 3, 64), (2, 2, 64), (1, 1, 40)]
    assert not any(name.endswith("depthwise_kernel") for name in layers.regularizers)
    assert len(layers.regularizers) == 8


def test_fewer_maps_than_the_backbone_has():
    layers = NetworkLayers(hyperparams=HYPERPARAMS)
    maps = [tf_keras.Input((19, 19, 24)), tf_keras.Input((10, 10, 32))]
    assert extra_layers(maps, layers, ExtraLayersOptions(num_layers=1)) == maps[:1]
