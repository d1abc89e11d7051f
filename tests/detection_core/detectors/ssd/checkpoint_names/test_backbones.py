import tf_keras

from detection_core.detectors.parts.backbones.efficientnet import EfficientNetOptions, efficientnet
from detection_core.detectors.parts.backbones.mobilenet import MobileNetOptions
from detection_core.detectors.parts.backbones.mobilenet_v1 import MobileNetV1Options, mobilenet_v1
from detection_core.detectors.parts.backbones.mobilenet_v2 import mobilenet_v2
from tests.detection_core.detectors.ssd.checkpoint_names.networks import keys_of, maker


def test_layers_of_a_backbone_are_numbered_in_network_order_without_gaps():
    inputs = tf_keras.Input((64, 64, 3))
    ends = mobilenet_v2(inputs, maker(), MobileNetOptions(depth_multiplier=0.35))
    prefix = "_feature_extractor/classification_backbone/layer_with_weights-"
    assert keys_of(inputs, ends.levels[5]) == {f"{prefix}{number}" for number in range(104)}


def test_padding_takes_no_number():
    inputs = tf_keras.Input((64, 64, 3))
    ends = mobilenet_v1(inputs, maker(explicit_padding=True), MobileNetV1Options(depth_multiplier=0.25))
    prefix = "_feature_extractor/classification_backbone/layer_with_weights-"
    assert keys_of(inputs, ends.levels[5]) == {f"{prefix}{number}" for number in range(2 + 4 * 13)}


def test_an_efficientnet_is_a_model_of_its_own_that_ends_at_the_last_level():
    inputs = tf_keras.Input((32, 32, 3))
    ends = efficientnet(inputs, maker(), EfficientNetOptions(version=0, max_level=2))
    prefix = "_feature_extractor/_efficientnet/layer_with_weights-"
    # Stem 2, a block without expansion 6, two with expansion 8 each.
    assert keys_of(inputs, ends.levels[2]) == {f"{prefix}{number}" for number in range(24)}
