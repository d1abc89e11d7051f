"""The check of a config: ranges, contradictions, and what it says."""

import dataclasses
import logging

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings

from detection_core.allowed_values import DECAY, POSITIVE_FRACTION, up_to
from detection_core.config import suggestions
from detection_core.config.check import (
    check_pipeline_config,
    contradictions,
    find_problems,
    find_refused,
    find_without_effect,
)
from detection_core.config.load import format_pipeline_config, load_pipeline_config, parse_pipeline_config
from detection_core.config.messages.table import BY_FIELD_NAME, rules_of
from detection_core.config.messages.table import RULES as OWN_RULES
from detection_core.config.paths.field_paths import child_path, walk_messages
from detection_core.config.suggestions import describe_unknown_field, near_names
from detection_core.data.label_map import MAX_CLASS_ID
from detection_core.detectors.family import families
from detection_core.detectors.rules import (
    RELATIONS,
    Rules,
    message_name,
    missing_arm,
    no_problems,
    wrong_fields,
)
from detection_core.errors import ConfigError, Problem
from detection_core.protos.losses_pb2 import Loss
from detection_core.protos.matcher_pb2 import Matcher
from detection_core.protos.optimizer_pb2 import Optimizer
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.ssd_pb2 import Ssd, SsdFeatureExtractor
from detection_core.protos.train_pb2 import TrainConfig
from tests.support.cases import cases, config_refused
from tests.support.configs import (
    CENTER,
    LAYERS,
    PATHS,
    PYRAMID,
    TWO_STAGE,
    assert_each_refused,
    assert_fine,
    assert_problems,
    changed,
    parsed,
)
from tests.support.random_messages import MESSAGES, mutated_configs
from tests.support.zoo_configs import ZOO, zoo_config

RULES = {**OWN_RULES, **{name: rules for family in families() for name, rules in family.rules.items()}}


def test_all_problems_are_told_at_once_with_their_lines():
    config = changed(PYRAMID, {"batch_size": 0, "num_classes": 0})
    lines = {"model.ssd": 3, "train_config.batch_size": 44}
    error = config_refused("", lambda: check_pipeline_config(config, where="my.config", lines=lines))
    assert error.where == "my.config:3"
    first, second = error.message.split("\n")
    assert first.startswith("model.ssd.num_classes: expected the number of classes")
    assert second.strip().startswith("line 44: train_config.batch_size: expected")
    assert config_refused("", lambda: check_pipeline_config(config, where="my.config")).where == "my.config"
    # Of what is not built, nothing else is said.
    config = changed(CENTER, {"model": "{ experimental_model { name: 'x' num_classes: -1 } }"})
    error = config_refused("no family of that name is registered", check_pipeline_config, config)
    assert "num_classes" not in str(error)


def test_every_message_of_a_config_is_walked_but_no_map():
    configs = map(load_pipeline_config, (TWO_STAGE, CENTER))
    paths, others = ([path for path, _ in walk_messages(config)] for config in configs)
    assert {"", "model.faster_rcnn.feature_extractor", "eval_input_reader[1]"} <= set(paths)
    assert len(paths) == len(set(paths))
    pose = "model.center_net.keypoint_estimation_task[0]"
    losses = [f"{pose}.loss{arm}" for arm in ("", ".localization_loss", ".classification_loss")]
    assert {pose, *losses} <= set(others) and not [path for path in others if "label_to_std" in path]


def test_a_missing_choice_names_the_arms_and_its_path():
    (problem,) = missing_arm(Matcher(), "matcher_oneof", "model.ssd.matcher")
    message = "expected one of argmax_matcher, bipartite_matcher, found none; add the one you want"
    assert problem == Problem(path="model.ssd.matcher", message=message)
    chosen = Matcher()
    chosen.argmax_matcher.SetInParent()
    assert not list(missing_arm(chosen, "matcher_oneof", "model.ssd.matcher"))
    field = Matcher.DESCRIPTOR.fields_by_name["argmax_matcher"]
    assert child_path("", field) == "argmax_matcher"
    assert child_path("a.b", field, 2) == "a.b.argmax_matcher[2]"


def test_an_interval_tells_its_ends_and_rules_find_nothing_by_default():
    for interval, inside, outside in (
        (up_to(64), (1, 64), (0, 65)), (POSITIVE_FRACTION, (1e-9, 1.0), (0.0, 1.001)),
        (DECAY, (0.0, 0.999), (1.0, -0.1)),
    ):  # fmt: skip
        assert all(map(interval.holds, inside)) and not any(map(interval.holds, outside)), interval
    assert up_to(10_000, 0).text == "a number from 0 to 10,000"
    assert list(Rules().check(None, "p")) == list(no_problems(None, "p")) == []


# Numbers that the schema gives no default that is in their range: a config has to set them.
MUST_BE_SET = {
    "AutomlCosineLearningRate.total_steps", "AutomlPolynomialLearningRate.total_steps",
    "AutomlStepwiseLearningRate.first_drop_step", "AutomlStepwiseLearningRate.second_drop_step",
    "KeypointBoxCoder.num_keypoints", "RandomResizeMethod.target_height", "RandomResizeMethod.target_width",
    "ResizeImage.new_height", "ResizeImage.new_width", "SSDRandomCropFixedAspectRatioOperation.min_area",
    "SSDRandomCropOperation.min_area", "SSDRandomCropOperation.min_aspect_ratio",
    "SSDRandomCropPadFixedAspectRatioOperation.min_area",
    "SSDRandomCropPadFixedAspectRatioOperation.min_aspect_ratio", "SSDRandomCropPadOperation.min_area",
    "SSDRandomCropPadOperation.min_aspect_ratio", "TemperatureScalingCalibration.scaler",
}  # fmt: skip


@cases(*sorted(RULES))
def test_rules_name_fields_and_oneofs_of_their_message(*, name):
    rules, kind = RULES[name], MESSAGES[name]
    assert set(rules.oneofs) <= set(kind.oneofs_by_name)
    assert all(kind.fields_by_name[part].message_type is not None for part in rules.parts)
    for field in rules.ranges:
        number = kind.fields_by_name[field].cpp_type
        assert number not in (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_BOOL)
        assert field not in rules.refused
    for field, entry in rules.wrong_if.items():
        text = entry["message"]
        assert set(entry) <= {*RELATIONS, "message"} and text.startswith("expected ")
        # Without relations every field is wrong, so that its text is formatted. Alone, each relation is read.
        relations = [{name: operand} for name, operand in entry.items() if name != "message"]
        for some in ({}, *relations):
            alone = dataclasses.replace(rules, wrong_if={field: {**some, "message": text}})
            found = list(wrong_fields(GetMessageClass(kind)(), "", alone))
            assert some or [problem.path for problem in found] == [field]


def test_numbers_that_must_be_set_are_known_and_ranges_by_name_not_copied():
    outside = set()
    for name, rules in RULES.items():
        for field, allowed in rules.ranges.items():
            descriptor = MESSAGES[name].fields_by_name[field]
            if not descriptor.is_repeated and not allowed.holds(descriptor.default_value):
                outside.add(f"{name}.{field}")
    assert outside == MUST_BE_SET
    assert rules_of(MESSAGES["CenterNet.TrackEstimation"]) == Rules()
    assert message_name(Matcher.DESCRIPTOR) == "Matcher"
    assert rules_of(Matcher.DESCRIPTOR).oneofs == ("matcher_oneof",)
    fields = {field.name for kind in MESSAGES.values() for field in kind.fields}
    for kind in MESSAGES.values():
        shared = [f for f in kind.fields if f.name in BY_FIELD_NAME.ranges]
        assert not any(field.is_repeated or field.message_type for field in shared)
        own = rules_of(kind).ranges
        # An own range that equals the shared one would be a second copy of it.
        assert not [f for f in shared if own.get(f.name) == BY_FIELD_NAME.ranges[f.name] and f.default_value]
    assert set(BY_FIELD_NAME.ranges) <= fields
    assert BY_FIELD_NAME.ranges["num_classes"].high == MAX_CLASS_ID


SSD, TRAIN = "model.ssd", "train_config"
ANCHORS = f"{SSD}.anchor_generator.multiscale_anchor_generator"
CROP = f"{TRAIN}.data_augmentation_options[1].random_crop_image"


def test_a_problem_is_found_where_it_is_and_nowhere_else_and_so_are_numbers_that_are_not_finite():
    levels = (f"{SSD}.feature_extractor.fpn.min_level", f"{ANCHORS}.min_level")
    assert_problems(PYRAMID, dict.fromkeys(levels, 7), set(levels))
    assert_problems(PYRAMID, {f"{CROP}.min_area": 0.75, f"{CROP}.max_area": 0.5}, {f"{CROP}.min_area"})
    wrong = {
        f"{SSD}.post_processing.batch_non_max_suppression.iou_threshold": 1.5,
        f"{TRAIN}.optimizer.momentum_optimizer.momentum_optimizer_value": -1,
        f"{CROP}.overlap_thresh": 2,
        f"{SSD}.image_resizer.fixed_shape_resizer.height": 0,
    }
    assert_each_refused(PYRAMID, wrong)
    assert_each_refused(LAYERS, {f"{SSD}.image_resizer.keep_aspect_ratio_resizer.min_dimension": 301})
    # An upper bound of 0 means that there is none.
    assert_fine(LAYERS, {f"{SSD}.box_predictor.convolutional_box_predictor.min_depth": 64})
    config = load_pipeline_config(PYRAMID)
    config.train_config.gradient_clipping_by_norm = float("nan")
    config.model.ssd.anchor_generator.multiscale_anchor_generator.aspect_ratios.append(float("inf"))
    paths = {problem.path for problem in find_problems(config)}
    assert paths == {f"{TRAIN}.gradient_clipping_by_norm", f"{ANCHORS}.aspect_ratios[3]"}


def _paths(message, path):
    return [problem.path for problem in contradictions(message, path)]


def test_parts_come_before_what_they_are_parts_of_and_what_is_missing_is_named():
    assert _paths(Loss(), "loss") == ["loss.localization_loss", "loss.classification_loss"]
    assert _paths(TrainConfig(batch_size=1), "") == ["optimizer"]
    problems = list(contradictions(parsed(Loss, "classification_loss {}"), "l"))
    assert "registered" in problems[0].message
    assert "mask_rcnn" not in " ".join(problem.message for problem in problems)
    rate = "optimizer { momentum_optimizer { learning_rate { manual_step_learning_rate {} } } }"
    found = _paths(parsed(TrainConfig, f"{rate} data_augmentation_options {{}}"), "t")
    schedule = "t.optimizer.momentum_optimizer.learning_rate.manual_step_learning_rate.schedule"
    assert set(found) == {"t.data_augmentation_options[0]", schedule}
    both = "hard_example_miner {} random_example_sampler {}"
    miner = f"classification_loss {{}} localization_loss {{ weighted_l2 {{}} }} {both}"
    assert _paths(parsed(Loss, miner), "l") == ["l.classification_loss", "l.random_example_sampler"]


def test_wrong_names_and_values_are_likened_to_what_is_near():
    assert near_names("min_aera", ["max_area", "min_area", "probability"]) == ["min_area", "max_area"]
    assert near_names("zzz", ["max_area"]) == []
    field = TrainConfig.DESCRIPTOR.fields_by_name["fine_tune_checkpoint_version"]
    assert suggestions.describe_wrong_value(field, "UNKNWN").endswith("found UNKNWN; did you mean UNKNOWN?")
    near = describe_unknown_field("num_clases", Ssd.DESCRIPTOR)
    assert near.startswith("Ssd has no field 'num_clases'; did you mean num_classes? It has: add_background")
    far = describe_unknown_field("batch_size", TrainEvalPipelineConfig.DESCRIPTOR)
    assert "batch_size is a field of EvalConfig, TrainConfig." in far and "did you mean" not in far
    text = describe_unknown_field("batch_norm_trainable", SsdFeatureExtractor.DESCRIPTOR)
    assert "`detflow config convert` removes it" in text and "has:" not in text
    assert "; it has: bifpn" in describe_unknown_field("zzz", SsdFeatureExtractor.DESCRIPTOR)
    text = suggestions.describe_expected(TrainConfig.DESCRIPTOR.fields_by_name["optimizer"])
    assert text == f"a message {{...}} of Optimizer: {', '.join(sorted(Optimizer.DESCRIPTOR.fields_by_name))}"


@cases(
    ("batch_size", "a whole number from 0 to 4294967295"),
    ("replicas_to_aggregate", "a whole number from -2147483648 to 2147483647"),
    ("bias_grad_multiplier", "a number"),
    ("sync_replicas", "true or false"),
    ("fine_tune_checkpoint", "a text in quotes"),
    ("fine_tune_checkpoint_version", "one of UNKNOWN, V1, V2"),
)
def test_what_a_field_takes_in_words(*, name, expected):
    assert suggestions.describe_expected(TrainConfig.DESCRIPTOR.fields_by_name[name]) == expected


SEEDS = [*map(load_pipeline_config, PATHS), *map(zoo_config, ZOO)]


@given(mutated_configs(SEEDS))
@settings(max_examples=80, deadline=None)
def test_a_changed_config_comes_back_and_passes_or_is_one_error_that_names_its_fields(config):
    assert parse_pipeline_config(format_pipeline_config(config)) == config
    refused = {problem.path for problem in find_refused(config)}
    assert not refused & {problem.path for problem in find_without_effect(config)}
    logging.disable(logging.WARNING)
    found = [*find_refused(config), *find_problems(config)]
    inside = tuple(f"{problem.path}." for problem in find_refused(config))
    try:
        check_pipeline_config(config, where="a.config")
    except ConfigError as error:
        assert error.where == "a.config" and str(error).startswith("a.config: ")
        assert all(p.path in error.message or p.path.startswith(inside) for p in found)
        assert found
    else:
        assert not found
    finally:
        logging.disable(logging.NOTSET)
