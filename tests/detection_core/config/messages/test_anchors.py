from detection_core.config.messages.anchors import anchors_per_location
from detection_core.config.messages.ssd import fitting_problems
from detection_core.protos.anchor_generator_pb2 import AnchorGenerator
from detection_core.protos.ssd_pb2 import Ssd
from tests.support.cases import cases
from tests.support.configs import assert_any, find_in, parsed
from tests.support.zoo_configs import ZOO, zoo_config, zoo_facts

LAYERS = "type: 'ssd_mobilenet_v2_keras' num_layers: 4"
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
    (LAYERS, "ssd", "", "num_layers: expected 4 layers as .*gives, found 6"),
    (LAYERS, "ssd", "scales: 0.5", "scales: expected 4 layers .*, found 1"),
    (LAYERS, "multiscale", "min_level: 3 max_level: 6", "multiscale_.*: expected levels 4 to 7"),
    (FPN, "multiscale", "max_level: 6", "expected levels 3 to 7 as .*fpn"),
    (FPN, "multiscale", "normalize_coordinates: false", "in pixels; set normalize_coordinates: true"),
    (FPN, "grid", "", "anchors in pixels; use another generator"),
    (FPN, "flexible_grid", "", "anchor_grid: expected 5 layers as feature_extractor.fpn gives, found 0"),
)
def test_anchors_that_do_not_fit_the_maps_are_named(*, extractor, kind, fields, message):
    text = f"feature_extractor {{ {extractor} }} anchor_generator {{ {_text(kind, fields)} }}"
    assert_any(fitting_problems(parsed(Ssd, text), "model.ssd"), message)
