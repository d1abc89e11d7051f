"""Object-based keys of variables; names of TensorFlow 1 are in test_scoped_names.py."""

import itertools

import pytest
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.errors import ModelError
from detection_core.families.ssd.checkpoint_names import checkpoint_names, names_of, object_paths
from detection_core.parts import necks
from detection_core.parts.backbones.efficientnet import EfficientNetOptions, efficientnet
from detection_core.parts.backbones.mobilenet import mobilenet_v1, mobilenet_v2
from detection_core.parts.heads import ConvolutionalHead, HeadOutputs, WeightSharedHead
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, ChannelOptions, LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers
from tests.support.cases import cases, refused
from tests.support.golden_networks import NAMES, load_golden
from tests.support.tiny_training import config_text

WITH_BATCH_NORM = LayerHyperparams(batch_norm=BatchNormOptions(scale=True), activation="relu6")


def maker(**settings) -> NetworkLayers:
    return NetworkLayers(hyperparams=WITH_BATCH_NORM, **settings)


def keys_of(inputs, outputs) -> set[str]:
    """Object paths below the model, without the names of variables."""
    network = tf_keras.Model(inputs, outputs)
    paths = (path.removeprefix("model/") for path in object_paths(network))
    return {path.rsplit("/", 1)[0] for path in paths}


@cases(
    ("classification_backbone", mobilenet_v2, ChannelOptions(depth_multiplier=0.35), 5, {}, 104),
    # Padding takes no number.
    (
        "classification_backbone",
        mobilenet_v1,
        ChannelOptions(depth_multiplier=0.25),
        5,
        {"explicit_padding": True},
        2 + 4 * 13,
    ),
    # Stem 2, a block without expansion 6, two with expansion 8 each; nothing behind the last level.
    ("_efficientnet", efficientnet, EfficientNetOptions(version=0, max_level=2), 2, {}, 24),
)
def test_layers_of_a_backbone_are_numbered_without_gaps(*, scope, build, options, level, settings, count):
    inputs = tf_keras.Input((64, 64, 3))
    found = keys_of(inputs, build(inputs, maker(**settings), options).levels[level])
    assert found == {f"_feature_extractor/{scope}/layer_with_weights-{number}" for number in range(count)}


OUTPUTS = HeadOutputs(anchors_per_location=[2, 2], num_class_slots=4)
HEADS = "_box_predictor/_prediction_heads"


def _maps(channels: tuple[int, int] = (8, 8)) -> list:
    return [tf_keras.Input((4, 4, channels[0])), tf_keras.Input((2, 2, channels[1]))]


def test_convolutional_head_counts_dropout_depthwise_norm_and_activation_as_slots():
    head = ConvolutionalHead(use_depthwise=True, num_layers_before_predictor=2, max_depth=6)
    maps = _maps()
    keys = keys_of(maps, list(head(maps, maker(), OUTPUTS)))
    level = {
        *(f"_box_predictor/_shared_nets/1/{slot}" for slot in (0, 1, 3, 4)),
        *(f"{HEADS}/box_encodings/1/_box_encoder_layers/{slot}" for slot in (0, 1, 3)),
        *(
            f"{HEADS}/class_predictions_with_background/1/_class_predictor_layers/{slot}"
            for slot in (1, 2, 4)
        ),
    }
    assert keys >= level and len(keys) == 2 * len(level)


def test_weight_shared_head_projects_maps_of_different_channels_and_drops_before_the_class_predictor():
    head = WeightSharedHead(depth=6, num_layers_before_predictor=1, use_dropout=True)
    maps = _maps((8, 6))
    towers = ("box_encodings", "class_predictions_with_background")
    assert keys_of(maps, list(head(maps, maker(), OUTPUTS))) == {
        *(f"_box_predictor/_additional_projection_layers/{i}/{slot}" for i in (0, 1) for slot in (0, 1)),
        *(f"_box_predictor/_head_scope_conv_layers/{head}PredictionTower/0" for head in ("Box", "Class")),
        *(f"_box_predictor/_base_tower_layers_for_heads/{head}/{i}/1" for head in towers for i in (0, 1)),
        "_box_predictor/_box_prediction_head/_box_encoder_layers/0",
        f"{HEADS}/class_predictions_with_background/_class_predictor_layers/1",
    }


def test_a_classifier_fills_less_than_a_detector_and_names_begin_as_said():
    model = build_detector(parse_pipeline_config(config_text()).model, seed=None)
    for named in (False, True):
        naming = checkpoint_names().naming(named=named)
        options = FineTuneOptions(kind="", named=named, extractor="ssd_mobilenet_v2_fpn_keras", heads=True)
        found = {kind: variables(model, options) for kind, variables in naming.kinds.items()}
        counts = {kind: len(variables) for kind, variables in found.items()}
        assert 0 < counts["classification"] < counts["detection"] <= counts.get("full", 10_000)
        assert max(counts.values()) == len(model.variables)
        for kind, start in (("classification", naming.classifier), ("detection", naming.detector)):
            assert any(path.startswith(start) for _, (path, *_) in found[kind])
        everything = found["detection" if named else "full"]
        assert any(heads in path for heads in naming.heads for _, (path, *_) in everything)


FPN = "_feature_extractor/_fpn_features_generator"
COARSE = "_feature_extractor/_coarse_feature_layers"
BIFPN = "_feature_extractor/_bifpn_stage"
EXTRA = "_feature_extractor/feature_map_generator/convolutions"


@cases(*itertools.product([False, True], [False, True]))
def test_explicit_padding_takes_a_slot_in_the_pyramid(*, explicit_padding, use_depthwise):
    levels = {level: tf_keras.Input((64 >> level, 64 >> level, 8)) for level in (3, 4)}
    options = {"min_level": 3, "max_level": 5, "backbone_max_level": 4, "channels": 6}
    options = necks.FpnOptions(use_depthwise=use_depthwise, **options)
    maps = necks.feature_pyramid(levels, maker(explicit_padding=explicit_padding), options)
    slots = (int(explicit_padding), int(explicit_padding) + 1)
    assert keys_of(list(levels.values()), maps) == {
        f"{FPN}/top_layers/0",
        f"{FPN}/residual_blocks/0/0",
        *(f"{start}/0/{slot}" for start in (f"{FPN}/conv_layers", COARSE) for slot in slots),
    }


@cases((False, False, (0, 1, 3, 4)), (True, False, (0, 1, 4, 5)), (False, True, (0, 1, 3, 4, 6, 7)))
def test_slots_of_extra_layers(*, explicit_padding, use_depthwise, slots):
    inputs = tf_keras.Input((8, 8, 8))
    options = necks.ExtraLayersOptions(num_layers=2, use_depthwise=use_depthwise)
    maps = necks.extra_layers([inputs], maker(explicit_padding=explicit_padding), options)
    assert keys_of(inputs, maps[1:]) == {f"{EXTRA}/1/{slot}" for slot in slots}


@cases("fast_attention", "sum")
def test_nodes_of_a_bidirectional_pyramid_are_numbered_as_they_are_made(*, combine_method):
    levels = {level: tf_keras.Input((64 >> level, 64 >> level, 8)) for level in (3, 4)}
    options = necks.BifpnOptions(
        channels=6, iterations=1, max_level=5, backbone_max_level=4, combine_method=combine_method
    )
    maps = necks.bidirectional_pyramid(levels, maker(), options)
    combined = (1, 2, 3, 4)  # node 0 makes level 5 out of level 4
    weights = {f"{BIFPN}/node_combine_op/{node}" for node in combined} if combine_method != "sum" else set()
    assert keys_of(list(levels.values()), maps) == weights | {
        *(f"{BIFPN}/node_post_combine_block/{node}/{slot}" for node in combined for slot in (1, 2)),
        *(f"{BIFPN}/node_input_blocks/{node}/0/1/{slot}" for node in (0, 1, 2, 3) for slot in (0, 1)),
    }


def test_the_extractor_of_mobilenet_v1_has_another_name_for_the_extra_layers():
    inputs = tf_keras.Input((64, 64, 3))
    ends = mobilenet_v1(inputs, maker(), ChannelOptions(depth_multiplier=0.25))
    maps = necks.extra_layers([ends.levels[5]], maker(), necks.ExtraLayersOptions(num_layers=2))
    folder = "_feature_extractor/_feature_map_generator/convolutions/1"
    found = {key for key in keys_of(inputs, maps[1:]) if "classification_backbone" not in key}
    assert found == {f"{folder}/{slot}" for slot in (0, 1, 3, 4)}


# The larger inputs have the variables of the smaller ones; the deeper ResNets are slow.
DISTINCT = [
    name if "resnet1" not in name else pytest.param(name, marks=pytest.mark.slow)
    for name in NAMES
    if not name.endswith("1024x1024") or "resnet101" in name
]


@pytest.mark.parametrize("name", DISTINCT)
def test_every_variable_has_the_key_and_shape_of_the_reference(name):
    golden = load_golden(name)
    larger = name.replace("640x640", "1024x1024")
    assert load_golden(larger).facts["variables"] == golden.facts["variables"]
    found = object_paths(build_detector(golden.message, seed=None).network)
    wanted = {path: tuple(shape) for path, shape in golden.facts["variables"].items()}
    assert {key: tuple(variable.shape) for key, variable in found.items()} == wanted


def test_names_of_a_network_tell_weights_and_padding_and_others_are_refused():
    inputs = tf_keras.Input((8, 8, 3), name="image")
    features = tf_keras.layers.ZeroPadding2D(1, name="first_pad")(inputs)
    features = tf_keras.layers.Conv2D(4, 3, name="first")(features)
    network = tf_keras.Model(inputs, tf_keras.layers.Conv2D(4, 3, name="second")(features))
    names = names_of(network)
    assert names.weighted == ("first", "second")
    assert names.all == {"image", "first_pad", "first", "second"}
    assert [names.slot_after_padding(name) for name in names.weighted] == [1, 0]
    refused(ModelError, "found 'first'", object_paths, network)
