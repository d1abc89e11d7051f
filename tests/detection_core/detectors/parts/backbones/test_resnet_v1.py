import tf_keras

from detection_core.detectors.parts.backbones.resnet_v1 import DEFAULT_HYPERPARAMS, ResNetOptions, resnet_v1
from detection_core.detectors.parts.layers.network_layers import NetworkLayers


def _ends(**options):
    inputs = tf_keras.Input((64, 96, 3))
    ends = resnet_v1(inputs, NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS), ResNetOptions(**options))
    return tf_keras.Model(inputs, ends.levels[5]), ends


def test_strides_channels_and_layers_of_the_shallowest():
    network, ends = _ends(num_layers=50)
    shapes = {name: tuple(features.shape[1:]) for name, features in ends.levels.items()}
    assert shapes == {
        2: (16, 24, 256),
        3: (8, 12, 512),
        4: (4, 6, 1024),
        5: (2, 3, 2048),
    }
    convolutions = [layer for layer in network.layers if isinstance(layer, tf_keras.layers.Conv2D)]
    # The 50th layer of the paper is the classifier's, and each stage has a shortcut that it does not count.
    assert len(convolutions) == 49 + 4
    assert not any(layer.use_bias for layer in convolutions)


def test_channels_follow_multiplier_and_lower_bound():
    network, ends = _ends(num_layers=50, depth_multiplier=0.25, min_depth=24)
    assert network.get_layer("backbone_stem").filters == 24
    assert [features.shape[-1] for features in ends.levels.values()] == [64, 128, 256, 512]
