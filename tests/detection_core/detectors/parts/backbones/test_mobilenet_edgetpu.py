import tf_keras

from detection_core.detectors.parts.backbones.mobilenet import DEFAULT_HYPERPARAMS, MobileNetOptions
from detection_core.detectors.parts.backbones.mobilenet_edgetpu import BLOCKS, mobilenet_edgetpu
from detection_core.detectors.parts.layers.network_layers import NetworkLayers


def test_maps_are_those_that_the_object_detection_api_s_own_test_expects():
    inputs = tf_keras.Input((128, 128, 3))
    layers = NetworkLayers(hyperparams=DEFAULT_HYPERPARAMS, seed=None)
    ends = mobilenet_edgetpu(inputs, layers, MobileNetOptions(min_depth=32))
    assert ends.expanded[4].shape == (None, 8, 8, 384)
    assert ends.levels[5].shape == (None, 4, 4, 192)
    names = [layer.name for layer in tf_keras.Model(inputs, ends.levels[5]).layers]
    added = {int(name.split("_")[2]) for name in names if name.endswith("_add")}
    assert added == set(range(22)) - {0, 1, 5, 9, 13, 17, 21}
    kernels = [block for block in BLOCKS if block.kind == "fused"]
    assert len(kernels) == 9 and "backbone_block_0_expand" not in names
