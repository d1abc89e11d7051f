import itertools

import tf_keras

from detection_core.detectors.parts.backbones.mobilenet_v1 import MobileNetV1Options, mobilenet_v1
from detection_core.detectors.parts.necks.bifpn import BifpnOptions, bidirectional_pyramid
from detection_core.detectors.parts.necks.extra_layers import ExtraLayersOptions, extra_layers
from detection_core.detectors.parts.necks.fpn import FpnOptions, feature_pyramid
from tests.detection_core.detectors.ssd.checkpoint_names.networks import keys_of, maker
from tests.support.cases import cases

FPN = "_feature_extractor/_fpn_features_generator"
COARSE = "_feature_extractor/_coarse_feature_layers"
BIFPN = "_feature_extractor/_bifpn_stage"
EXTRA = "_feature_extractor/feature_map_generator/convolutions"


@cases(*itertools.product([False, True], [False, True]))
def test_explicit_padding_takes_a_slot_in_the_pyramid(*, explicit_padding, use_depthwise):
    levels = {level: tf_keras.Input((64 >> level, 64 >> level, 8)) for level in (3, 4)}
    options = FpnOptions(
        min_level=3, max_level=5, backbone_max_level=4, channels=6, use_depthwise=use_depthwise
    )
    maps = feature_pyramid(levels, maker(explicit_padding=explicit_padding), options)
    slot = int(explicit_padding)
    assert keys_of(list(levels.values()), maps) == {
        f"{FPN}/top_layers/0",
        f"{FPN}/residual_blocks/0/0",
        f"{FPN}/conv_layers/0/{slot}",
        f"{FPN}/conv_layers/0/{slot + 1}",
        f"{COARSE}/0/{slot}",
        f"{COARSE}/0/{slot + 1}",
    }


@cases((False, False, (0, 1, 3, 4)), (True, False, (0, 1, 4, 5)), (False, True, (0, 1, 3, 4, 6, 7)))
def test_slots_of_extra_layers(*, explicit_padding, use_depthwise, slots):
    inputs = tf_keras.Input((8, 8, 8))
    options = ExtraLayersOptions(num_layers=2, use_depthwise=use_depthwise)
    maps = extra_layers([inputs], maker(explicit_padding=explicit_padding), options)
    assert keys_of(inputs, maps[1:]) == {f"{EXTRA}/1/{slot}" for slot in slots}


@cases("fast_attention", "sum")
def test_nodes_of_a_bidirectional_pyramid_are_numbered_as_they_are_made(*, combine_method):
    levels = {level: tf_keras.Input((64 >> level, 64 >> level, 8)) for level in (3, 4)}
    options = BifpnOptions(
        channels=6, iterations=1, max_level=5, backbone_max_level=4, combine_method=combine_method
    )
    maps = bidirectional_pyramid(levels, maker(), options)
    combined = (1, 2, 3, 4)  # node 0 makes level 5 out of level 4
    weights = {f"{BIFPN}/node_combine_op/{node}" for node in combined} if combine_method != "sum" else set()
    assert keys_of(list(levels.values()), maps) == weights | {
        *(f"{BIFPN}/node_post_combine_block/{node}/{slot}" for node in combined for slot in (1, 2)),
        *(f"{BIFPN}/node_input_blocks/{node}/0/1/{slot}" for node in (0, 1, 2, 3) for slot in (0, 1)),
    }


def test_the_extractor_of_mobilenet_v1_has_another_name_for_the_extra_layers():
    inputs = tf_keras.Input((64, 64, 3))
    ends = mobilenet_v1(inputs, maker(), MobileNetV1Options(depth_multiplier=0.25))
    maps = extra_layers([ends.levels[5]], maker(), ExtraLayersOptions(num_layers=2))
    folder = "_feature_extractor/_feature_map_generator/convolutions/1"
    found = {key for key in keys_of(inputs, maps[1:]) if "classification_backbone" not in key}
    assert found == {f"{folder}/{slot}" for slot in (0, 1, 3, 4)}
