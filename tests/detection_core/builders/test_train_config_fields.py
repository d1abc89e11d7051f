"""Every field of train_config changes a training or is reported as without effect; checked configs are built.

What the loop does with its options is tested where it does it: `tests/detection_core/training`.
"""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings

from detection_core.builders import datasets
from detection_core.builders.detector import build_multi_scale_model
from detection_core.builders.input_pipeline import build_label_targets, build_training_stream
from detection_core.builders.train_plan import build_fine_tune_options, build_optimization, build_train_plan
from detection_core.config.check import find_without_effect
from detection_core.config.label_map_file import parse_label_map
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.messages.anchors import anchors_per_location
from detection_core.config.messages.sizes import network_size
from detection_core.config.messages.table import RULES
from detection_core.config.messages.training import fields_in_epochs
from detection_core.config.model_fields import fine_tune_checkpoint
from detection_core.config.paths.overrides import apply_overrides
from detection_core.families.ssd.extractors import map_shapes
from detection_core.protos.monitoring_pb2 import Monitoring
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig as Config
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.protos.validation_pb2 import Validation
from detection_core.tasks.describe import describe
from tests.support.agreement import BUILDERS, assert_agree, assert_parts_agree, messages_to_build, passes
from tests.support.cases import cases
from tests.support.configs import LAYERS, PYRAMID, RETINA, changed
from tests.support.random_messages import mutated_configs
from tests.support.tiny_training import LABELS, config_text
from tests.support.zoo_configs import ZOO, zoo_config

EVALUATED = "eval_input_reader { tf_record_input_reader { input_path: 'x' } }"
BASE = parse_pipeline_config(config_text() + EVALUATED)
MOSAIC = {"train_config.data_augmentation_options": [{"mosaic": {"height": 64, "width": 64}}]}
Probe = Callable[[Config], Any]


def plan(field):
    return lambda config: getattr(build_train_plan(config), field)


def stream(field):
    def read(config):
        value = getattr(build_training_stream(config, batch_size=2), field)
        return value if isinstance(value, int) else repr(value)

    return read


def scales(config):
    # A detector that has the only size asked for already, so that no network is built.
    detector = SimpleNamespace(input_shape=SimpleNamespace(size=(64, 64)), losses=None)
    return build_multi_scale_model(config, detector) is not None


def class_weights(config):
    reader = SimpleNamespace(leaving_out=lambda _: reader, count_objects=lambda classes: np.array([1, 4]))
    with mock.patch.object(datasets, "train_reader", lambda config, label_map: reader):
        return datasets.training_class_weights(config, label_map=parse_label_map(LABELS, "labels"))


def epochs(config):
    return [name for _, name, _ in fields_in_epochs(config.train_config)]


# Field of the options of the loop -> its other value.
OPTIONS = {
    "keep_checkpoint_every_n_hours": 2.5, "gradient_clipping_by_norm": 5.0, "num_steps": 9,
    "gradient_clipping_by_variable_norm": 5.0, "bias_grad_multiplier": 2.0, "freeze_variables": ["head"],
    "update_trainable_variables": ["head"], "add_regularization_loss": False, "summarize_gradients": True,
    "backbone_rate_decay": 0.5, "freeze_backbone_stages": 2, "gradient_accumulation_steps": 0,
    "max_skipped_updates": 3, "monitoring.histograms_every_steps": 7, "initial_loss_scale": 8.0,
}  # fmt: skip
# Field -> its other value, and the field of the plan that it changes.
PLANNED = {
    "batch_size": (4, "batch_size"), "seed": (3, "reproducibility"),
    "deterministic": (True, "reproducibility"),
    "precision": ("BFLOAT16", "precision"), "validation": ({"every_steps": 2}, "validation"),
    "monitoring": ({"metric_lines": True}, "loggers"), "monitoring.metric_lines": (True, "loggers"),
    "monitoring.mlflow": ({"experiment": "e"}, "loggers"), "monitoring.wandb": ({"project": "p"}, "loggers"),
    "monitoring.profile": ({"first_step": 3}, "profile"),
}  # fmt: skip
VALIDATED = {"train_config.validation.every_steps": 2}
VALIDATION = {
    "every_steps": 3, "every_minutes": 5.0, "max_images": 3, "keep_best": 3, "patience": 3, "min_gain": 0.5,
    "weights": "LAST", "metric": [{"name": "DetectionBoxes_Recall/AR@1"}], "tile_size": 64,
}  # fmt: skip
TILED = {**VALIDATED, "train_config.validation.tile_size": 64}
CHECKPOINT = {
    "fine_tune_checkpoint_type": "full", "fine_tune_checkpoint_version": "V2",
    "from_detection_checkpoint": True, "load_all_detection_checkpoint_vars": True,
}  # fmt: skip
SCORES = {"train_input_reader.load_multiclass_scores": True}
ADAM = {"use_moving_average": True, "adam_optimizer": {"learning_rate": {"constant_learning_rate": {}}}}
# Field -> its other value, what sees it, and what has to be set beside it.
EFFECTS = {
    **{field: (value, plan("options"), {}) for field, value in OPTIONS.items()},
    **{field: (value, plan(name), {}) for field, (value, name) in PLANNED.items()},
    **{f"validation.{f}": (value, plan("validation"), VALIDATED) for f, value in VALIDATION.items()},
    "validation.tile_overlap": (0.5, plan("validation"), TILED),
    **{field: (value, build_fine_tune_options, {}) for field, value in CHECKPOINT.items()},
    "fine_tune_checkpoint": ("a/ckpt-0", fine_tune_checkpoint, {}),
    "data_augmentation_options": ([{"random_vertical_flip": {}}], stream("augment"), {}),
    "optimizer": (ADAM, lambda config: type(build_optimization(config).optimizer), {}),
    "num_epochs": (2.0, epochs, {"train_config.num_steps": "unset"}),
    "close_mosaic_epochs": (1.0, epochs, {}), "close_mosaic_steps": (1, stream("mixed"), MOSAIC),
    "mixing_pool_size": (5, stream("pool"), MOSAIC), "max_number_of_boxes": (7, stream("max_boxes"), {}),
    "merge_multiple_label_boxes": (True, build_label_targets, {}),
    "use_multiclass_scores": (True, build_label_targets, SCORES),
    "multi_scale": ({"scale": [1.0]}, scales, {}), "class_weight_power": (0.5, class_weights, {}),
}  # fmt: skip


def test_no_field_is_forgotten():
    without_effect = set(RULES["TrainConfig"].without_effect)
    own = {name for name in EFFECTS if "." not in name}
    assert {field.name for field in TrainConfig.DESCRIPTOR.fields} == own | without_effect
    for message in (Monitoring, Validation):
        block = message.DESCRIPTOR.name.lower()
        nested = {f"{block}.{field.name}" for field in message.DESCRIPTOR.fields}
        assert nested == {name for name in EFFECTS if name.startswith(f"{block}.")}
    assert not EFFECTS.keys() & without_effect


@cases(*EFFECTS)
def test_a_field_changes_what_is_trained_or_how(*, field):
    value, probe, beside = EFFECTS[field]
    before = apply_overrides(BASE, beside)
    after = apply_overrides(before, {f"train_config.{field}": value})
    assert probe(before) != probe(after)


@cases(*sorted(RULES["TrainConfig"].without_effect))
def test_a_field_that_changes_nothing_is_named(*, field):
    kind = TrainConfig.DESCRIPTOR.fields_by_name[field]
    other = not kind.default_value if kind.cpp_type == kind.CPPTYPE_BOOL else kind.default_value + 3
    config = apply_overrides(BASE, {f"train_config.{field}": other})
    assert f"train_config.{field}" in str(list(find_without_effect(config)))
    plans = [dataclasses.asdict(build_train_plan(c).options) for c in (BASE, config)]
    assert plans[0] == plans[1]


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
        assert describe(config).model.data["anchors"] == anchors

    check()
