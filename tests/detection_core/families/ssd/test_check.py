"""Contradictions of the parts of an SSD."""

import re

from detection_core.builders.detector_parts import build_box_coder
from detection_core.config.check import find_problems
from detection_core.config.messages.anchors import anchors_per_location, code_size
from detection_core.config.messages.sizes import fixed_size, network_size
from detection_core.families.efficientdet.settings import Node, named_nodes, node_problems
from detection_core.families.ssd import extractors
from detection_core.families.ssd.check import fitting_problems
from detection_core.families.ssd.extractors import extractor_problems, map_levels, map_shapes
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from detection_core.protos.box_coder_pb2 import BoxCoder
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.ssd_pb2 import Ssd, SsdFeatureExtractor
from tests.support.cases import cases
from tests.support.configs import (
    LAYERS,
    PYRAMID,
    TWO_STAGE,
    assert_any,
    assert_each_refused,
    assert_fine,
    assert_problems,
    changed,
    find_in,
    parsed,
)
from tests.support.efficientdet_goldens import read_json
from tests.support.zoo_configs import ZOO, zoo_config, zoo_facts

SSD = "model.ssd"
EXTRACTOR, GENERATOR = f"{SSD}.feature_extractor", f"{SSD}.anchor_generator"
PYRAMID_ANCHORS = f"{GENERATOR}.multiscale_anchor_generator"
LAYER_ANCHORS = f"{GENERATOR}.ssd_anchor_generator"
HEAD = f"{SSD}.box_predictor.weight_shared_convolutional_box_predictor"
PROCESSING, RESIZER = f"{SSD}.post_processing", f"{SSD}.image_resizer"
NMS, CALIBRATION = f"{PROCESSING}.batch_non_max_suppression", f"{PROCESSING}.calibration_config"
SECOND_NMS = "model.faster_rcnn.second_stage_post_processing.batch_non_max_suppression"


def test_a_part_that_is_missing_or_does_not_fit_is_found_where_it_is():
    parts = ("box_coder", "anchor_generator", "box_predictor", "similarity_calculator")
    wrong = {
        **{f"{SSD}.{part}": {} for part in parts}, f"{PYRAMID_ANCHORS}.aspect_ratios": "[]",
        f"{EXTRACTOR}.type": "ssd_mobilenet_v2_mnasfpn",
        f"{EXTRACTOR}.bifpn": {"min_level": 3, "max_level": 6}, f"{SSD}.matcher": "unset",
        f"{SSD}.loss.hard_example_miner": {}, f"{NMS}.max_detections_per_class": 200,
    }  # fmt: skip
    assert_each_refused(PYRAMID, wrong)
    assert_each_refused(LAYERS, {RESIZER: {"keep_aspect_ratio_resizer": {}}})
    resizer = "model.faster_rcnn.image_resizer.conditional_shape_resizer"
    assert_each_refused(TWO_STAGE, {f"{resizer}.condition": "INVALID"})


def test_a_contradiction_is_found_at_one_of_its_fields_or_all():
    def found(path, field, value, *expected):
        assert_problems(path, {field: value}, set(expected))

    found(PYRAMID, f"{EXTRACTOR}.type", "ssd_mobilenet_v2_keras", f"{EXTRACTOR}.fpn")
    losses = (f"{SSD}.loss.localization_loss", f"{SSD}.loss.classification_loss")
    found(PYRAMID, f"{SSD}.loss", {}, *losses)
    found(PYRAMID, f"{PYRAMID_ANCHORS}.max_level", 7, PYRAMID_ANCHORS)
    found(PYRAMID, GENERATOR, {"ssd_anchor_generator": {}}, f"{LAYER_ANCHORS}.num_layers", HEAD)
    # An extractor whose name fixes the number of feature maps.
    found(LAYERS, EXTRACTOR, {"type": "ssd_resnet50_v1_fpn_keras"}, f"{LAYER_ANCHORS}.num_layers")
    background = f"{SSD}.explicit_background_class"
    found(LAYERS, background, True, f"{SSD}.num_classes", background)
    found(LAYERS, f"{EXTRACTOR}.num_layers", 5, f"{LAYER_ANCHORS}.num_layers")
    strides = (f"{LAYER_ANCHORS}.height_stride", f"{LAYER_ANCHORS}.width_stride")
    found(LAYERS, f"{LAYER_ANCHORS}.scales", [0.5], f"{LAYER_ANCHORS}.scales", *strides)
    found(LAYERS, strides[0], [1, 2], *strides)
    found(LAYERS, f"{LAYER_ANCHORS}.height_offset", [1, 2, 3, 4], f"{LAYER_ANCHORS}.width_offset")
    found(TWO_STAGE, f"{SECOND_NMS}.max_total_detections", 5, f"{SECOND_NMS}.max_detections_per_class")
    agnostic, sigma = f"{NMS}.use_class_agnostic_nms", f"{NMS}.soft_nms_sigma"
    combined = {f"{NMS}.use_combined_nms": True, agnostic: True, sigma: 0.5}
    assert_problems(PYRAMID, combined, {agnostic, sigma})
    # Scales beyond the layers are left out, and layers beyond the scales.
    scales = [0.1, 0.2, 0.4, 0.8]
    assert_fine(LAYERS, {f"{LAYER_ANCHORS}.scales": scales})
    assert_fine(LAYERS, {f"{LAYER_ANCHORS}.scales": [*scales, 0.9]})
    assert_fine(LAYERS, {f"{LAYER_ANCHORS}.scales": scales, f"{LAYER_ANCHORS}.num_layers": 6})


MAPS = "type: 'ssd_mobilenet_v2_keras' num_layers: 4"
FPN = "type: 'ssd_mobilenet_v2_fpn_keras'"


def _text(kind, fields):
    return f"{kind}_anchor_generator {{ {fields} }}"


def test_as_many_anchors_as_the_object_detection_api_lays():
    for name in ZOO:
        counts = anchors_per_location(zoo_config(name).model.ssd.anchor_generator)
        facts = zoo_facts(name)
        places = [rows * columns for rows, columns in facts.levels]
        assert sum(c * p for c, p in zip(counts, places, strict=True)) == facts.anchors, name
    assert anchors_per_location(AnchorGenerator()) == []


@cases(
    ("ssd", "num_layers: 3 aspect_ratios: [1, 2]", [3, 3, 3]),
    ("ssd", "num_layers: 2 aspect_ratios: 1 reduce_boxes_in_lowest_layer: false", [2, 2]),
    # Both lists are walked to the end of the shorter one, as `create_ssd_anchors` does.
    ("ssd", "num_layers: 2 scales: [0.1, 0.4, 0.9] aspect_ratios: 1", [3, 2]),
    ("ssd", "num_layers: 6 scales: [0.1, 0.4] aspect_ratios: 1", [3, 2]),
    ("multiscale", "min_level: 3 max_level: 4 aspect_ratios: [1, 2]", [4, 4]),
    ("grid", "scales: [1, 2] aspect_ratios: [1, 2, 3]", [6]),
    ("flexible_grid", "anchor_grid { base_sizes: 1 } anchor_grid {}", [1, 0]),
)
def test_anchors_of_a_place_are_counted(*, kind, fields, counts):
    assert anchors_per_location(parsed(AnchorGenerator, _text(kind, fields))) == counts


MANY = "scales_per_octave: expected at most 1,000 anchors at each place, found 10,000,000"


@cases(
    ("ssd", "aspect_ratios: [1, -1]", r"aspect_ratios\[1\]: .*above 0, found -1"),
    ("ssd", "scales: 0", r"scales\[0\]: expected a number above 0"),
    ("ssd", "interpolated_scale_aspect_ratio: 0", "aspect_ratios: expected at least one"),
    ("ssd", "num_layers: 2 height_stride: 8", "height_stride: .*each of 2 layers, found 1"),
    ("ssd", "height_stride: [1, 2, 3, 4, 5, 6]", "width_stride: expected as many as"),
    ("multiscale", "", "aspect_ratios: expected at least one ratio"),
    ("multiscale", "min_level: 5 max_level: 3", "min_level: expected at most max_"),
    ("multiscale", "aspect_ratios: 1 scales_per_octave: 10000000", MANY),
    ("grid", "aspect_ratios: 0", r"aspect_ratios\[0\]: expected a number above 0"),
    ("flexible_grid", "anchor_grid { base_sizes: 3 }", "as base_sizes, which are 1"),
    ("flexible_grid", "anchor_grid {}", r"anchor_grid\[0\].base_sizes: expected"),
)
def test_contradictions_of_a_generator_are_named(*, kind, fields, message):
    assert_any(find_in(parsed(AnchorGenerator, _text(kind, fields)), "a"), message)


@cases(
    (MAPS, "ssd", "", "num_layers: expected 4 layers as .*gives, found 6"),
    (MAPS, "ssd", "scales: 0.5", "scales: expected 4 layers .*, found 1"),
    (MAPS, "multiscale", "min_level: 3 max_level: 6", "multiscale_.*: expected levels 4 to 7"),
    (FPN, "multiscale", "max_level: 6", "expected levels 3 to 7 as .*fpn"),
    (FPN, "multiscale", "normalize_coordinates: false", "in pixels; set normalize_coordinates: true"),
    (FPN, "grid", "", "anchors in pixels; use another generator"),
    (FPN, "flexible_grid", "", "anchor_grid: expected 5 layers as feature_extractor.fpn gives, found 0"),
)
def test_anchors_that_do_not_fit_the_maps_are_named(*, extractor, kind, fields, message):
    text = f"feature_extractor {{ {extractor} }} anchor_generator {{ {_text(kind, fields)} }}"
    assert_any(fitting_problems(parsed(Ssd, text), "model.ssd"), message)


def test_the_size_of_a_code_is_known_without_building_the_coder():
    for arm in BoxCoder.DESCRIPTOR.oneofs_by_name["box_coder_oneof"].fields:
        keypoints = "num_keypoints: 3" if arm.name == "keypoint_box_coder" else ""
        message = parsed(BoxCoder, f"{arm.name} {{ {keypoints} }}")
        assert code_size(message) == build_box_coder(message).code_size, arm.name
        assert not find_in(message, "c"), arm.name
    assert code_size(BoxCoder()) == 0


def test_what_codes_are_divided_by_is_positive():
    for coder, field, value in (
        ("keypoint", "num_keypoints", 0), ("mean_stddev", "stddev", 0),
        ("faster_rcnn", "y_scale", -1), ("square", "length_scale", 0),
    ):  # fmt: skip
        message = parsed(BoxCoder, f"{coder}_box_coder {{ {field}: {value} }}")
        assert [p.path for p in find_in(message, "c")] == [f"c.{coder}_box_coder.{field}"]


CODE, DEPTH = f"{HEAD}.box_code_size", f"{HEAD}.depth"


def test_a_head_is_made_for_its_coder_and_its_anchors():
    assert_each_refused(PYRAMID, {CODE: 5, DEPTH: 0})
    coder = {"model.ssd.box_coder.keypoint_box_coder.num_keypoints": 2, "train_input_reader.num_keypoints": 2}
    coder["train_config.data_augmentation_options"] = "[]"
    assert_problems(PYRAMID, coder, {CODE})
    assert_fine(PYRAMID, {**coder, CODE: 8})
    assert_problems(PYRAMID, {"model.ssd.box_coder": {"square_box_coder": {}}}, {CODE})
    assert_fine(PYRAMID, {DEPTH: 0, f"{HEAD}.num_layers_before_predictor": 0})
    layers = {"num_layers": 4, "aspect_ratios": [1.0]}
    assert_problems(PYRAMID, {GENERATOR: {"ssd_anchor_generator": layers}}, {HEAD})
    assert_fine(
        PYRAMID, {GENERATOR: {"ssd_anchor_generator": layers | {"reduce_boxes_in_lowest_layer": False}}}
    )


def test_thresholds_leave_room_between_them_unless_they_are_ignored():
    matcher = f"{SSD}.matcher.argmax_matcher"
    unmatched, lower = f"{matcher}.unmatched_threshold", f"{matcher}.negatives_lower_than_unmatched"
    assert_each_refused(PYRAMID, {unmatched: 0.75})
    assert_problems(PYRAMID, {unmatched: 0.5, lower: False}, {lower})
    assert_fine(PYRAMID, {unmatched: 0.75, f"{matcher}.ignore_thresholds": True})


def test_losses_fit_the_coder_and_exclude_each_other():
    changes = {f"{SSD}.num_classes": 2, f"{SSD}.explicit_background_class": True}
    assert_problems(LAYERS, changes, {f"{SSD}.explicit_background_class"})
    changes |= {f"{SSD}.num_classes": 1, f"{SSD}.add_background_class": False}
    assert_problems(LAYERS, changes, {f"{SSD}.num_classes"})
    keypoints = (f"{SSD}.box_coder.keypoint_box_coder.num_keypoints", "train_input_reader.num_keypoints")
    code, loss = (
        f"{SSD}.box_predictor.convolutional_box_predictor.box_code_size",
        f"{SSD}.loss.localization_loss",
    )
    changes = {**dict.fromkeys(keypoints, 2), code: 8, loss: {"weighted_giou": {}}}
    assert_problems(LAYERS, changes, {loss})
    sampler = f"{SSD}.loss.random_example_sampler"
    assert_each_refused(LAYERS, {sampler: {}})
    assert_each_refused(PYRAMID, {f"{sampler}.positive_sample_fraction": 0})


OVERRIDE = "override_base_feature_extractor_hyperparams"
LEVELS = "min_level: 3 max_level: 7 num_iterations: 3 num_filters: 64"
NODES = "type: 'ssd_efficientnet-b0_bifpn_keras' bifpn"
BIFPN = f"{NODES} {{ {LEVELS}"


def test_levels_and_maps_are_known_for_every_name_and_no_other():
    for name in ZOO:
        extractor, facts = zoo_config(name).model.ssd.feature_extractor, zoo_facts(name)
        assert list(extractor_problems(extractor, "e")) == []
        assert map_shapes(extractor, *facts.input_size) == [tuple(level) for level in facts.levels], name
    assert all(map_levels(SsdFeatureExtractor(type=name)) is not None for name in extractors.EXTRACTORS)
    assert map_levels(SsdFeatureExtractor(type="x")) is None
    assert map_levels(SsdFeatureExtractor(type="ssd_mobilenet_v1_keras", num_layers=3)) == range(4, 7)


@cases(
    ("type: 'ssd_mobilenet_v2_keraz'", "e.type: expected one of .*did you mean ssd_mobilenet_v2_keras"),
    ("type: 'nope'", "e.type: .*use one of these"),
    ("type: 'ssd_mobilenet_v2'", "^e.type: .*its name is ssd_mobilenet_v2_keras now"),
    (f"type: '{'x' * 5000}'", r"e.type: .*\(5,000 characters\)"),
    ("type: 'ssd_resnet50_v1_fpn_keras' use_depthwise: true", "e.use_depthwise: expected false"),
    ("type: 'ssd_mobilenet_v2_keras' num_layers: 7", "e.num_layers: expected 1 to 6 .*, found 7"),
    ("type: 'ssd_inception_v2' conv_hyperparams {}", f"e.{OVERRIDE}: expected true, .*found false"),
    (f"type: 'ssd_mobiledet_cpu' {OVERRIDE}: true", f"e.{OVERRIDE}: expected false, .*found true"),
    (f"{FPN} fpn {{ min_level: 6 }}", "e.fpn.min_level: .*found 6 and 7"),
    (f"{FPN} fpn {{ min_level: 4 max_level: 3 }}", "e.fpn.min_level: .*found 4 and 3"),
    (f"{FPN} fpn {{ max_level: 60 }}", "e.fpn.max_level: expected at most 12, .*found 60"),
    (f"{FPN} min_depth: 0 depth_multiplier: 0.01", "e.min_depth: expected 1 or more"),
    (f"{BIFPN} }} use_depthwise: true", "e.use_depthwise: expected false"),
    (f"{BIFPN} }} use_explicit_padding: true", "e.use_explicit_padding: expected false"),
    (f"{NODES} {{ min_level: 3 max_level: 3 }}", "e.bifpn.min_level: .*found 3 and 3"),
    (f"{NODES} {{ min_level: 1 max_level: 2 }}", "num_iterations: expected a positive number, found 0"),
    (f"{BIFPN} }}".replace("64", "0"), "num_filters: expected a positive number, found 0"),
    (f"{BIFPN} }} depth_multiplier: 0.5", "e.depth_multiplier: expected 1, .*found 0.5"),
    (f"{BIFPN} combine_method: 'mean' }}", "e.bifpn.combine_method: expected one of sum, .*found 'mean'"),
)
def test_what_an_extractor_cannot_do_is_named(*, text, message):
    given = parsed(SsdFeatureExtractor, text)
    assert_any([*extractor_problems(given, "e"), *find_in(given, "e")], message)


def test_maps_of_odd_sizes_lose_their_borders_or_are_padded():
    message = SsdFeatureExtractor(type="ssd_inception_v3", num_layers=6)
    assert map_shapes(message, 300, 75) == [(35, 7), (17, 3), (8, 1), (4, 1), (2, 1), (1, 1)]
    assert map_levels(message) == range(3, 9)
    (problem,) = extractors.least_side_problems(message, "e", (300, 74))
    assert re.search("at least 75 x 75 .* found 300 x 74", problem.message)
    assert not list(extractors.least_side_problems(message, "e", (75, 75)))
    message = SsdFeatureExtractor(type="ssd_mobilenet_v2_keras", num_layers=2, pad_to_multiple=1)
    assert map_shapes(message, 33, 100) == [(3, 7), (2, 4)]
    message.pad_to_multiple = 64
    assert map_shapes(message, 33, 100) == [(4, 8), (2, 4)]


def test_nodes_equal_the_reference_and_one_that_cannot_be_made_is_found():
    for name, case in read_json("hparams")["fpn"].items():
        kind, *levels = name.split("_")
        if levels:
            expected = [Node(node["feat_level"], tuple(node["inputs_offsets"])) for node in case["nodes"]]
            assert list(named_nodes(kind, *map(int, levels))) == expected, name
    assert named_nodes("bifpn", 3, 4) == (Node(3, (0, 1)), Node(4, (1, 2)))
    # A node may take one made before it.
    assert not list(node_problems([Node(3, (0,)), Node(4, (5, 1))], 3, 7, "nodes"))
    wrong = {Node(8, (0,)): "feat_level", Node(3, (0, 5)): "inputs_offsets", Node(3, ()): "inputs"}
    for node, field in wrong.items():
        [problem] = node_problems([node], 3, 7, "nodes")
        assert problem.path.startswith(f"nodes[0].{field}")


def test_a_one_stage_detector_has_the_one_size_of_its_resizer():
    for text, size in {
        "fixed_shape_resizer { height: 3 width: 5 }": (3, 5),
        "keep_aspect_ratio_resizer { max_dimension: 7 pad_to_max_dimension: true }": (7, 7),
        "keep_aspect_ratio_resizer { max_dimension: 7 }": None,
        "identity_resizer {}": None,
        "": None,
    }.items():
        assert network_size(parsed(ImageResizer, text)) == size
    assert fixed_size(parsed(ImageResizer, "fixed_shape_resizer { height: 3 width: 5 }")) == (3, 5)
    assert_each_refused(PYRAMID, {RESIZER: {"identity_resizer": {}}})
    assert_each_refused(LAYERS, {f"{RESIZER}.keep_aspect_ratio_resizer.per_channel_pad_value": [1, 2]})


def test_an_initializer_of_a_kernel_is_known_and_any_other_refused():
    path = f"{EXTRACTOR}.conv_hyperparams.initializer.keras_initializer_by_name"
    for name in ("he_normal", "GlorotUniform", "zeros", "lecun_uniformV2"):
        assert_fine(PYRAMID, {path: name})
    for name in ("he_norml", "identity", "", "x" * 9000):
        (problem,) = find_problems(changed(PYRAMID, {path: f'"{name}"'}))
        assert problem.path == path and len(problem.message) < 300
        assert ("did you mean he_normal" in problem.message) == (name == "he_norml")


def test_suppression_and_calibration_fit_the_scores():
    changes = {f"{NMS}.use_class_agnostic_nms": True, f"{NMS}.max_classes_per_detection": 2}
    assert_problems(PYRAMID, changes, {f"{NMS}.max_classes_per_detection"})
    assert_each_refused(PYRAMID, {f"{NMS}.score_threshold": -0.5})
    scaler = f"{CALIBRATION}.temperature_scaling_calibration.scaler"
    pairs = f"{CALIBRATION}.class_id_function_approximations.class_id_xy_pairs_map[3]"
    unknown = "training_data_type: DATA_TYPE_UNKNOWN"
    assert_each_refused(PYRAMID, {CALIBRATION: {}, pairs: unknown, scaler: 0})
    function = f"{CALIBRATION}.function_approximation"
    assert_problems(PYRAMID, {function: {}}, {f"{function}.x_y_pairs"})
    assert_fine(PYRAMID, {scaler: 2})
