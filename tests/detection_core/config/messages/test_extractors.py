import re

from detection_core.config.messages import extractors
from detection_core.config.messages.extractors import extractor_problems, map_levels, map_shapes
from detection_core.protos.ssd_pb2 import SsdFeatureExtractor
from tests.support.cases import cases
from tests.support.configs import assert_any, parsed
from tests.support.zoo_configs import ZOO, zoo_config, zoo_facts

FPN = "type: 'ssd_mobilenet_v2_fpn_keras'"
OVERRIDE = "override_base_feature_extractor_hyperparams"
LEVELS = "min_level: 3 max_level: 7 num_iterations: 3 num_filters: 64"
BIFPN = f"type: 'ssd_efficientnet-b0_bifpn_keras' bifpn {{ {LEVELS}"


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
    (f"type: '{'x' * 5000}'", r"e.type: .*\(5,000 characters\)"),
    ("type: 'ssd_resnet50_v1_fpn_keras' use_depthwise: true", "e.use_depthwise: expected false"),
    ("type: 'ssd_mobilenet_v2_keras' num_layers: 7", "e.num_layers: expected 1 to 6 .*, found 7"),
    ("type: 'ssd_inception_v2' conv_hyperparams {}", f"e.{OVERRIDE}: expected true, .*found false"),
    (f"type: 'ssd_mobiledet_cpu' {OVERRIDE}: true", f"e.{OVERRIDE}: expected false, .*found true"),
    (f"{FPN} fpn {{ min_level: 6 }}", "e.fpn.min_level: .*found 6 and 7"),
    (f"{FPN} fpn {{ min_level: 4 max_level: 3 }}", "e.fpn.min_level: .*found 4 and 3"),
    (f"{FPN} fpn {{ max_level: 60 }}", "e.fpn.max_level: expected at most 12, .*found 60"),
    (f"{FPN} min_depth: 0 depth_multiplier: 0.01", "e.min_depth: expected 1 or more"),
    (f"{BIFPN} }} depth_multiplier: 0.5", "e.depth_multiplier: expected 1, .*found 0.5"),
    (f"{BIFPN} combine_method: 'mean' }}", "e.bifpn.combine_method: expected one of sum, .*found 'mean'"),
)
def test_what_an_extractor_cannot_do_is_named(*, text, message):
    assert_any(extractor_problems(parsed(SsdFeatureExtractor, text), "e"), message)


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
