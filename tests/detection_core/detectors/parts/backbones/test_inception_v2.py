import tf_keras

from detection_core.detectors.parts.backbones.inception_v2 import inception_v2
from detection_core.detectors.parts.backbones.mobilenet import DEFAULT_HYPERPARAMS, MobileNetOptions
from detection_core.detectors.parts.layers.network_layers import NetworkLayers


def test_modules_have_the_paper_s_channels_and_parameters():
    inputs = tf_keras.Input((224, 224, 3))
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS, seed=None)
    ends = inception_v2(inputs, layers, MobileNetOptions())
    network = tf_keras.Model(inputs, ends.levels[5])
    found = [network.get_layer(f"backbone_mixed_{number}").output.shape[-1] for number in range(10)]
    # Modules 3b to 5c, https://arxiv.org/abs/1502.03167, figure 5, as the slim library has them.
    assert found == [256, 320, *[576] * 5, *[1024] * 3]
    sizes = [(112, 64), (56, 192), (28, 320), (14, 576), (7, 1024)]
    shapes = {level: tuple(features.shape[1:]) for level, features in ends.levels.items()}
    assert shapes == {level: (side, side, depth) for level, (side, depth) in enumerate(sizes, 1)}
    stem = network.get_layer("backbone_stem_depthwise")
    assert stem.depthwise_kernel.shape == (7, 7, 3, 8)
    # 11.2 million with a classifier of 1001 classes.
    weights = sum(w.shape.num_elements() for w in network.weights if "kernel" in w.name)
    assert round((weights + 1024 * 1001) / 1e6, 1) == 11.2
