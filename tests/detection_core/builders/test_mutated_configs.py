"""Whatever is done to a config: what passes the check is built, so that nothing is refused after training."""

import logging

import pytest
from hypothesis import HealthCheck, assume, given, settings

from detection_core.builders.anchors import build_anchor_generator
from detection_core.builders.augment import build_augmentations
from detection_core.builders.heads import build_head
from detection_core.builders.hyperparams import build_hyperparams
from detection_core.builders.image_resizer import model_image_resizer
from detection_core.builders.input_reader import build_decoding
from detection_core.builders.losses import build_losses
from detection_core.builders.optimizer import build_optimizer
from detection_core.builders.post_processing import build_post_processing
from detection_core.builders.training_labels import build_label_targets, score_columns
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import load_pipeline_config
from detection_core.config.messages.anchors import anchors_per_location
from detection_core.config.messages.extractors import map_shapes
from detection_core.config.messages.image_resizers import network_size
from detection_core.config.paths.overrides import apply_overrides
from detection_core.detectors.ssd.target_assigner import build_target_assigner
from detection_core.errors import ConfigError
from detection_core.tasks.describe import describe
from tests.detection_core.config.configs import LAYERS, PYRAMID, RETINA
from tests.detection_core.config.mutations import mutated_configs
from tests.detection_core.config.zoo import ZOO, zoo_config

SEEDS = [*map(load_pipeline_config, (PYRAMID, LAYERS, RETINA)), *map(zoo_config, ZOO)]

EXTRACTOR = "model.ssd.feature_extractor"

PARTS = {
    "anchors": lambda c: build_anchor_generator(c.model.ssd.anchor_generator),
    "augmentations": lambda c: build_augmentations(c.train_config.data_augmentation_options),
    "decoding": lambda c: build_decoding(c.train_input_reader, score_columns(c.model)),
    "labels": build_label_targets,
    "extractor": lambda c: build_hyperparams(c.model.ssd.feature_extractor.conv_hyperparams, EXTRACTOR),
    "head": lambda c: build_head(c.model.ssd.box_predictor, "head"),
    "losses": lambda c: build_losses(c.model.ssd.loss),
    "optimizer": lambda c: build_optimizer(c.train_config.optimizer),
    "post-processing": lambda c: build_post_processing(c.model.ssd.post_processing),
    "resizer": lambda c: model_image_resizer(c.model),
    "targets": lambda c: build_target_assigner(c.model.ssd),
}


def _passes(config) -> bool:
    logging.disable(logging.WARNING)
    try:
        check_pipeline_config(config)
    except ConfigError:
        return False
    finally:
        logging.disable(logging.NOTSET)
    return config.model.HasField("ssd") and config.HasField("train_config")


@given(mutated_configs(SEEDS, changes=2))
@settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much]
)
def test_every_part_of_what_passes_is_built(config):
    assume(_passes(config))
    for build in PARTS.values():
        build(config)


@pytest.fixture(scope="module")
def small():
    """The pyramid's config with a network that is built in a second."""
    return apply_overrides(
        load_pipeline_config(PYRAMID),
        {
            f"{EXTRACTOR}.depth_multiplier": 0.1,
            "model.ssd.image_resizer.fixed_shape_resizer": {"height": 64, "width": 64},
            "model.ssd.box_predictor.weight_shared_convolutional_box_predictor.depth": 8,
        },
    )


@pytest.mark.slow
def test_a_changed_config_that_passes_is_built_whole(small):
    @given(mutated_configs([small]))
    @settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def check(config):
        assume(_passes(config) and _is_small(config))
        assert describe(config).anchors == sum(places_of(config))

    check()


def places_of(config):
    """Anchors of each level, as they are counted without a tensor."""
    ssd = config.model.ssd
    shapes = map_shapes(ssd.feature_extractor, *network_size(ssd.image_resizer))
    counts = anchors_per_location(ssd.anchor_generator)
    return [rows * columns * count for (rows, columns), count in zip(shapes, counts, strict=True)]


def _is_small(config) -> bool:
    """Leave out networks that nobody waits for."""
    head = config.model.ssd.box_predictor.weight_shared_convolutional_box_predictor
    resizer = config.model.ssd.image_resizer.fixed_shape_resizer
    sizes = [head.depth, head.kernel_size, head.num_layers_before_predictor, config.model.ssd.num_classes]
    sizes += [resizer.height / 2, resizer.width / 2]
    extractor = config.model.ssd.feature_extractor
    sizes += [extractor.depth_multiplier * 64, extractor.fpn.additional_layer_depth, extractor.min_depth]
    return max(sizes) <= 256
