"""Whatever is done to a config: what passes the check is built, so that nothing is refused after training."""

import pytest
from hypothesis import HealthCheck, assume, example, given, settings

from detection_core.config.load import load_pipeline_config
from detection_core.config.messages.anchors import anchors_per_location
from detection_core.config.messages.sizes import network_size
from detection_core.families.ssd.extractors import map_shapes
from detection_core.tasks.describe import describe
from tests.support.agreement import BUILDERS, assert_agree, assert_parts_agree, messages_to_build, passes
from tests.support.cases import cases
from tests.support.configs import LAYERS, PYRAMID, RETINA, changed
from tests.support.random_messages import mutated_configs
from tests.support.zoo_configs import ZOO, zoo_config

SEEDS = [*map(load_pipeline_config, (PYRAMID, LAYERS, RETINA)), *map(zoo_config, ZOO)]


@given(mutated_configs(SEEDS, changes=2))
@settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much]
)
def test_every_part_of_what_passes_is_built(config):
    assume(assert_parts_agree(config))


@cases(*BUILDERS)
def test_a_message_is_built_or_refused_as_the_check_refuses_it(*, kind):
    @given(messages_to_build(kind))
    @example(kind())
    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def check(message):
        assert_agree(message)

    check()


# The pyramid's config with a network that is built in a second.
SMALL = {
    "model.ssd.feature_extractor.depth_multiplier": 0.1,
    "model.ssd.image_resizer.fixed_shape_resizer": {"height": 64, "width": 64},
    "model.ssd.box_predictor.weight_shared_convolutional_box_predictor.depth": 8,
}


@pytest.mark.slow
def test_a_changed_config_that_passes_is_built_whole():
    @given(mutated_configs([changed(PYRAMID, SMALL)]))
    @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def check(config):
        # Leave out networks that nobody waits for.
        head = config.model.ssd.box_predictor.weight_shared_convolutional_box_predictor
        resizer = config.model.ssd.image_resizer.fixed_shape_resizer
        sizes = [head.depth, head.kernel_size, head.num_layers_before_predictor, config.model.ssd.num_classes]
        sizes += [resizer.height / 2, resizer.width / 2]
        extractor = config.model.ssd.feature_extractor
        sizes += [extractor.depth_multiplier * 64, extractor.fpn.additional_layer_depth, extractor.min_depth]
        assume(passes(config) and (max(sizes) <= 256))
        ssd = config.model.ssd
        shapes = map_shapes(ssd.feature_extractor, *network_size(ssd.image_resizer))
        counts = anchors_per_location(ssd.anchor_generator)
        anchors = sum(rows * columns * count for (rows, columns), count in zip(shapes, counts, strict=True))
        assert describe(config).model.anchors == anchors

    check()
