import logging
import re

import pytest
from google.protobuf import text_encoding
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.config.load import load_pipeline_config
from detection_core.config.paths import overrides
from detection_core.config.paths.overrides import apply_overrides, merge_override_file
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.train_pb2 import V2
from tests.support.cases import cases, refused
from tests.support.configs import CENTER, LAYERS, PATHS, PYRAMID, TWO_STAGE, changed
from tests.support.random_messages import float_text, is_map, messages

STEPS = "train_config.data_augmentation_options"
CROP = f"{STEPS}[1].random_crop_image"
SECOND = "model.faster_rcnn.second_stage_post_processing"
PAIRS = f"{SECOND}.calibration_config.class_id_function_approximations.class_id_xy_pairs_map"


def steps_of(config):
    steps = config.train_config.data_augmentation_options
    return [step.WhichOneof("preprocessing_step") for step in steps]


def pairs_of(config):
    calibration = config.model.faster_rcnn.second_stage_post_processing.calibration_config
    return dict(calibration.class_id_function_approximations.class_id_xy_pairs_map)


def override(path, value, base=PYRAMID):
    return changed(base, {path: value})


def refuse(path, value, part, base=PYRAMID):
    caught = refused(ConfigError, re.escape(part), override, path, value, base)
    assert caught.where.split(", ")[0] == f"override {path}"


FROM_TEXT = {
    "model.ssd.num_classes": "3", f"{CROP}.min_area": "2.5e-1",
    "train_config.fine_tune_checkpoint_version": "V2", "train_config.sync_replicas": "True",
    "train_config.fine_tune_checkpoint": "gs://bucket/a b/ckpt-0",
    "train_config.fine_tune_checkpoint_type": '"detection"',
    "model.ssd.image_resizer": "{ keep_aspect_ratio_resizer { max_dimension: 640 } }",
    "train_config.freeze_variables[+]": "FeatureExtractor", "eval_input_reader[-1].shuffle": "1",
    "eval_config.super_categories[a.b]": "c",
}  # fmt: skip
FROM_YAML = {
    "train_config.batch_size": 8, "train_config.sync_replicas": True, f"{CROP}.max_area": 1,
    "train_config.freeze_variables": ["a", "b,c"],
    "graph_rewriter": {"quantization": {"delay": 5, "symmetric": True}},
    STEPS: [{"random_vertical_flip": {}}, "{ rgb_to_gray {} }"], "eval_config.metrics_set": None,
}  # fmt: skip


def test_values_of_every_kind_from_text_and_yaml():
    config = load_pipeline_config(PYRAMID)
    found = apply_overrides(config, FROM_TEXT)
    train, resizer = found.train_config, found.model.ssd.image_resizer
    assert found.model.ssd.num_classes == 3
    assert train.data_augmentation_options[1].random_crop_image.min_area == 0.25
    assert (train.fine_tune_checkpoint_version, train.sync_replicas) == (V2, True)
    assert train.fine_tune_checkpoint == "gs://bucket/a b/ckpt-0"
    assert train.fine_tune_checkpoint_type == "detection"
    assert resizer.keep_aspect_ratio_resizer.max_dimension == 640
    assert not resizer.HasField("fixed_shape_resizer")
    assert list(train.freeze_variables) == ["FeatureExtractor"]
    assert found.eval_input_reader[0].shuffle
    assert dict(found.eval_config.super_categories) == {"a.b": "c"}
    assert config == load_pipeline_config(PYRAMID)  # the original stays
    found = apply_overrides(config, FROM_YAML)
    train, quantization = found.train_config, found.graph_rewriter.quantization
    assert (train.batch_size, train.sync_replicas) == (8, True)
    assert list(train.freeze_variables) == ["a", "b,c"]
    assert (quantization.delay, quantization.symmetric) == (5, True)
    assert steps_of(found) == ["random_vertical_flip", "rgb_to_gray"]
    assert not found.eval_config.metrics_set


ASPECT_RATIOS = "model.ssd.anchor_generator.multiscale_anchor_generator.aspect_ratios"


@cases(
    (ASPECT_RATIOS, "1,3", [1, 3]), (ASPECT_RATIOS, "[]", []), (ASPECT_RATIOS, "unset", []),
    (f"{ASPECT_RATIOS}[1]", "7", [1, 7, 0.5]), (f"{ASPECT_RATIOS}[-1]", "7", [1, 2, 7]),
    (f"{ASPECT_RATIOS}[*]", "7", [7, 7, 7]), (f"{ASPECT_RATIOS}[+]", "7", [1, 2, 0.5, 7]),
    (f"{ASPECT_RATIOS}[0]", "unset", [2, 0.5]),
)  # fmt: skip
def test_lists_are_replaced_changed_and_grown(*, path, value, expected):
    generator = override(path, value).model.ssd.anchor_generator.multiscale_anchor_generator
    assert list(generator.aspect_ratios) == expected


def test_lists_and_maps_of_messages():
    both = "[{ rgb_to_gray {} }, { normalize_image {} }]"
    assert steps_of(override(STEPS, both)) == ["rgb_to_gray", "normalize_image"]
    grown = override(f"{STEPS}[+].random_vertical_flip.probability", 0.25).train_config
    assert len(grown.data_augmentation_options) == 3
    assert grown.data_augmentation_options[2].random_vertical_flip.probability == 0.25
    assert steps_of(override(f"{STEPS}[*]", "{ rgb_to_gray {} }")) == ["rgb_to_gray"] * 2
    assert steps_of(override(f"{STEPS}[0]", "unset")) == ["random_crop_image"]
    new = {"[7]": "{ x_y_pair { x: 0.5 y: 0.25 } }", "[3].x_y_pair[1].y": 1, "[5]": {}}
    config = changed(TWO_STAGE, {f"{PAIRS}{path}": value for path, value in new.items()})
    pairs = pairs_of(config)
    assert sorted(pairs) == [3, 5, 7]
    assert (pairs[3].x_y_pair[1].y, pairs[7].x_y_pair[0].y) == (1, 0.25)
    assert sorted(pairs_of(apply_overrides(config, {f"{PAIRS}[3]": "unset"}))) == [5, 7]
    refuse(f"{PAIRS}[cat]", "{}", "as key of class_id_xy_pairs_map, found 'cat'", TWO_STAGE)


def test_another_arm_drops_the_old_one_a_field_is_cleared_and_an_empty_message_is_present(caplog):
    path = "train_config.optimizer.adam_optimizer.learning_rate.constant_learning_rate.learning_rate"
    with caplog.at_level(logging.WARNING):
        found = override(path, "1e-3")
    assert found.train_config.optimizer.WhichOneof("optimizer") == "adam_optimizer"
    assert "adam_optimizer replaces momentum_optimizer" in caplog.text
    assert not override("graph_rewriter", "unset").HasField("graph_rewriter")
    assert override("train_config.batch_size", "unset").train_config.batch_size == 32
    quoted = override("train_config.fine_tune_checkpoint", "'unset'")
    assert quoted.train_config.fine_tune_checkpoint == "unset"
    for empty in ("{}", {}):
        assert override("model.ssd.mask_head_config", empty).model.ssd.HasField("mask_head_config")


@cases(
    ("model.ssd.num_clases", 3, "Ssd has no field 'num_clases'; did you mean num_classes?"),
    ("ssd.num_classes", 3, "nearest paths: model.ssd.num_classes"),
    ("model.num_classes", 3, "model.ssd.num_classes"),
    ("optimizer.momentum_optimizer", "{}", "train_config.optimizer.momentum_optimizer"),
    ("num_clases", 3, "did you mean num_classes"),
    ("train_config.batch_size", "many", "expected a whole number from 0 to 4294967295, found many"),
    ("train_config.batch_size", "8 num_steps: 3", "found 8 num_steps: 3"),
    ("train_config.batch_size", "", "found nothing"),
    ("train_config.batch_size.much", 3, "nothing follows it"),
    ("train_config.batch_size[0]", 3, "is single; leave out [0]"),
    ("train_config[0].batch_size", 3, "is single; leave out [0]"),
    ("eval_input_reader.shuffle", True, "is a list; write eval_input_reader[0], [+] or [*]"),
    ("eval_input_reader[3].shuffle", True, "element 3 does not exist, there are 1; use [+]"),
    ("eval_input_reader[x].shuffle", True, "a number, + or * in the brackets, found 'x'"),
    ("train_config.freeze_variables[0]", "a", "element 0 does not exist, there are 0"),
    ("eval_config.super_categories", "a", "is a map; write super_categories[KEY]"),
    ("eval_config.super_categories[a].b", "c", "nothing follows it"),
    ("model.ssd.image_resizer", "{ fixed_shape_resizer { hight: 3 } }", "did you mean height"),
    ("graph_rewriter", "{} } model { ssd {", "check braces"),
    ("graph_rewriter", "{} model { ssd {} }", "nothing after it"),
    ("train_config batch", 3, "expected a field path"),
    ("train_config..batch_size", 3, "expected a field path"),
    ("", 3, "expected a field path"),
    ("model.ssd.image_resizer", {"fixed_shape_resizer": {"hight": 3}}, "fixed_shape_resizer, hight: "),
)
def test_an_error_names_the_path_and_the_remedy(*, path, value, part):
    refuse(path, value, part)


def test_new_elements_may_be_named_twice_or_numbered():
    flips = [(f"{STEPS}[+].random_horizontal_flip.probability", p) for p in (0.25, 0.75)]
    config = apply_overrides(load_pipeline_config(CENTER), [*flips, (f"{STEPS}[+]", "rgb_to_gray {}")])
    first, second, third = config.train_config.data_augmentation_options[-3:]
    assert first.random_horizontal_flip.probability == 0.25
    assert second.random_horizontal_flip.probability == 0.75
    assert third.HasField("rgb_to_gray")
    config = override("eval_config.metrics_set[+]", "a", CENTER)
    sets = {"eval_config.metrics_set[+]": "b", "eval_config.metrics_set[+2]": "c"}
    assert list(apply_overrides(config, sets).eval_config.metrics_set)[-3:] == ["a", "b", "c"]
    readers = {"eval_input_reader[+].shuffle": True, "eval_input_reader[+2].num_epochs": 3}
    first, second = apply_overrides(config, readers).eval_input_reader
    assert (first.shuffle, second.num_epochs) == (True, 3)
    refuse("eval_input_reader[*].shuffle", True, "matches nothing", CENTER)


def test_a_file_of_overrides_or_yaml_of_fields_is_merged(tmp_path):
    path, step = tmp_path / "more.config", "data_augmentation_options { rgb_to_gray {} }"
    path.write_text(f"train_config {{ batch_size: 2 {step} }}\neval_input_reader {{}}")
    config = load_pipeline_config(PYRAMID)
    merged = merge_override_file(config, str(path))
    assert (merged.train_config.batch_size, merged.train_config.num_steps) == (2, 1500)
    assert len(merged.train_config.data_augmentation_options) == 3
    assert len(merged.eval_input_reader) == 2
    assert config == load_pipeline_config(PYRAMID)
    wrong = "\ntrain_config { batch_sise: 2 }"
    with pytest.raises(ConfigError, match=r"^more\.config:2: train_config\.batch_sise"):
        overrides.merge_override_text(config, wrong, where="more.config")
    path = tmp_path / "best.yaml"
    path.write_text("train_config.batch_size: 3\ntrain_config.validation: {every_steps: 4}\n")
    merged = merge_override_file(TrainEvalPipelineConfig(), str(path))
    assert (merged.train_config.batch_size, merged.train_config.validation.every_steps) == (3, 4)


def leaves(message, prefix=""):
    """Overrides that build a message up from nothing."""
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        if is_map(field):
            for key in value:
                entry = field.message_type.fields_by_name["value"]
                yield from element(entry, value[key], f"{path}[{key}]", f"{path}[{key}]")
        elif field.is_repeated:
            for i, one in enumerate(value):
                yield from element(field, one, f"{path}[+]", f"{path}[{i}]")
        else:
            yield from element(field, value, path, path)


def element(field, value, made, path):
    if isinstance(value, Message):
        yield made, "{}"
        yield from leaves(value, f"{path}.")
    elif field.enum_type is not None:
        yield made, field.enum_type.values_by_number[value].name
    elif isinstance(value, str):
        yield made, '"' + text_encoding.CEscape(value, as_utf8=False) + '"'
    else:
        yield made, float_text(value) if isinstance(value, float) else str(value)


def built_from(message):
    built = TrainEvalPipelineConfig()
    for path, value in leaves(message):
        overrides.set_field(built, path, value)
    return built


@cases(*PATHS)
def test_overrides_build_a_whole_config(*, path):
    config = load_pipeline_config(path)
    assert built_from(config) == config


@settings(max_examples=40, deadline=None)
@given(messages(TrainEvalPipelineConfig.DESCRIPTOR))
def test_overrides_build_any_message(message):
    assert built_from(message) == message


NAMES = ["model", "ssd", "train_config", "batch_size", "eval_input_reader", "super_categories", "optimizer"]
PLAIN = st.text(max_size=6) | st.integers() | st.floats() | st.booleans() | st.none()
VALUES = PLAIN | st.sampled_from(["{}", "[1]", "unset"])


@st.composite
def paths(draw):
    names = st.sampled_from([*NAMES, ""])
    indices = st.sampled_from(["", "", "[0]", "[+]", "[*]", "[-1]", "[x]", "["])
    return ".".join(draw(names) + draw(indices) for _ in range(draw(st.integers(1, 3))))


@settings(max_examples=80, deadline=None)
@given(paths(), VALUES)
def test_any_override_gives_a_config_or_one_error(path, value):
    try:
        override(path, value, LAYERS)
    except ConfigError as error:
        assert error.where.startswith("override ")


@cases("- 1", "a: [", "1: 2", "train_config.no_such: 1")
def test_yaml_that_says_nothing_is_refused_with_its_file(tmp_path, *, text):
    path = tmp_path / "best.yml"
    path.write_text(text)
    refused(ConfigError, r"best\.yml|no_such", merge_override_file, TrainEvalPipelineConfig(), str(path))
