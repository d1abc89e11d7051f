import logging
from collections.abc import Iterator

import pytest
from google.protobuf import text_encoding
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.config.load import load_pipeline_config
from detection_core.config.paths.overrides import (
    apply_overrides,
    merge_override_file,
    merge_override_text,
    set_field,
)
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.train_pb2 import V2
from tests.support.cases import cases
from tests.support.configs import CENTER, LAYERS, PATHS, PYRAMID, TWO_STAGE
from tests.support.random_messages import float_text, is_map, messages

CROP = "train_config.data_augmentation_options[1].random_crop_image"


def override(path: str, value: object, base: str = PYRAMID) -> TrainEvalPipelineConfig:
    return apply_overrides(load_pipeline_config(base), {path: value})


def refuse(path: str, value: object, base: str = PYRAMID) -> str:
    with pytest.raises(ConfigError) as caught:
        override(path, value, base)
    assert caught.value.where == f"override {path}"
    return caught.value.message


def test_values_of_every_kind_from_text():
    config = load_pipeline_config(PYRAMID)
    changed = apply_overrides(
        config,
        {
            "model.ssd.num_classes": "3",
            f"{CROP}.min_area": "2.5e-1",
            "train_config.fine_tune_checkpoint_version": "V2",
            "train_config.sync_replicas": "True",
            "train_config.fine_tune_checkpoint": "gs://bucket/a b/ckpt-0",
            "train_config.fine_tune_checkpoint_type": '"detection"',
            "model.ssd.image_resizer": "{ keep_aspect_ratio_resizer { max_dimension: 640 } }",
            "train_config.freeze_variables[+]": "FeatureExtractor",
            "eval_input_reader[-1].shuffle": "1",
            "eval_config.super_categories[a.b]": "c",
        },
    )
    train = changed.train_config
    assert changed.model.ssd.num_classes == 3
    assert train.data_augmentation_options[1].random_crop_image.min_area == 0.25
    assert (train.fine_tune_checkpoint_version, train.sync_replicas) == (V2, True)
    assert train.fine_tune_checkpoint == "gs://bucket/a b/ckpt-0"
    assert train.fine_tune_checkpoint_type == "detection"
    assert changed.model.ssd.image_resizer.keep_aspect_ratio_resizer.max_dimension == 640
    assert not changed.model.ssd.image_resizer.HasField("fixed_shape_resizer")
    assert list(train.freeze_variables) == ["FeatureExtractor"]
    assert changed.eval_input_reader[0].shuffle
    assert dict(changed.eval_config.super_categories) == {"a.b": "c"}
    assert config == load_pipeline_config(PYRAMID)  # the original stays


def test_values_of_every_kind_from_yaml():
    changed = apply_overrides(
        load_pipeline_config(PYRAMID),
        {
            "train_config.batch_size": 8,
            "train_config.sync_replicas": True,
            f"{CROP}.max_area": 1,
            "train_config.freeze_variables": ["a", "b,c"],
            "graph_rewriter": {"quantization": {"delay": 5, "symmetric": True}},
            "train_config.data_augmentation_options": [{"random_vertical_flip": {}}, "{ rgb_to_gray {} }"],
            "eval_config.metrics_set": None,
        },
    )
    assert (changed.train_config.batch_size, changed.train_config.sync_replicas) == (8, True)
    assert list(changed.train_config.freeze_variables) == ["a", "b,c"]
    assert (changed.graph_rewriter.quantization.delay, changed.graph_rewriter.quantization.symmetric) == (
        5,
        True,
    )
    steps = changed.train_config.data_augmentation_options
    assert [s.WhichOneof("preprocessing_step") for s in steps] == ["random_vertical_flip", "rgb_to_gray"]
    assert not changed.eval_config.metrics_set


ASPECT_RATIOS = "model.ssd.anchor_generator.multiscale_anchor_generator.aspect_ratios"


@cases(
    (ASPECT_RATIOS, "1,3", [1, 3]),
    (ASPECT_RATIOS, "[1, 3, 0.25]", [1, 3, 0.25]),
    (ASPECT_RATIOS, "4", [4]),
    (ASPECT_RATIOS, "[]", []),
    (ASPECT_RATIOS, "unset", []),
    (f"{ASPECT_RATIOS}[1]", "7", [1, 7, 0.5]),
    (f"{ASPECT_RATIOS}[-1]", "7", [1, 2, 7]),
    (f"{ASPECT_RATIOS}[*]", "7", [7, 7, 7]),
    (f"{ASPECT_RATIOS}[+]", "7", [1, 2, 0.5, 7]),
    (f"{ASPECT_RATIOS}[0]", "unset", [2, 0.5]),
)
def test_lists_are_replaced_changed_and_grown(*, path, value, expected):
    changed = override(path, value)
    assert list(changed.model.ssd.anchor_generator.multiscale_anchor_generator.aspect_ratios) == expected


def test_lists_of_texts_split_only_inside_brackets():
    path = "train_input_reader.tf_record_input_reader.input_path"
    assert list(override(path, "a,b").train_input_reader.tf_record_input_reader.input_path) == ["a,b"]
    read = override(path, "[a, 'b,c', \"d\"]").train_input_reader.tf_record_input_reader
    assert list(read.input_path) == ["a", "b,c", "d"]


def test_lists_of_messages():
    path = "train_config.data_augmentation_options"
    replaced = override(path, "[{ rgb_to_gray {} }, { normalize_image {} }]").train_config
    assert [s.WhichOneof("preprocessing_step") for s in replaced.data_augmentation_options] == [
        "rgb_to_gray",
        "normalize_image",
    ]
    grown = override(
        f"{path}[+].random_vertical_flip.probability", 0.25
    ).train_config.data_augmentation_options
    assert len(grown) == 3
    assert grown[2].random_vertical_flip.probability == 0.25
    every = override(f"{path}[*]", "{ rgb_to_gray {} }").train_config.data_augmentation_options
    assert [s.WhichOneof("preprocessing_step") for s in every] == ["rgb_to_gray"] * 2
    assert len(override(f"{path}[0]", "unset").train_config.data_augmentation_options) == 1


def test_maps_of_messages():
    path = (
        "model.faster_rcnn.second_stage_post_processing.calibration_config"
        ".class_id_function_approximations.class_id_xy_pairs_map"
    )
    changed = override(f"{path}[7]", "{ x_y_pair { x: 0.5 y: 0.25 } }", TWO_STAGE)
    changed = apply_overrides(changed, {f"{path}[3].x_y_pair[1].y": 1, f"{path}[5]": {}})
    second = changed.model.faster_rcnn.second_stage_post_processing
    pairs = second.calibration_config.class_id_function_approximations.class_id_xy_pairs_map
    assert sorted(pairs) == [3, 5, 7]
    assert (pairs[3].x_y_pair[1].y, pairs[7].x_y_pair[0].y) == (1, 0.25)
    assert sorted(_pairs(apply_overrides(changed, {f"{path}[3]": "unset"}))) == [5, 7]


def _pairs(config: TrainEvalPipelineConfig) -> dict:
    second = config.model.faster_rcnn.second_stage_post_processing
    return dict(second.calibration_config.class_id_function_approximations.class_id_xy_pairs_map)


def test_another_arm_drops_the_old_one_and_says_so(caplog):
    path = "train_config.optimizer.adam_optimizer.learning_rate.constant_learning_rate.learning_rate"
    with caplog.at_level(logging.WARNING):
        changed = override(path, "1e-3")
    assert changed.train_config.optimizer.WhichOneof("optimizer") == "adam_optimizer"
    assert "adam_optimizer replaces momentum_optimizer" in caplog.text


def test_a_field_is_cleared():
    assert not override("graph_rewriter", "unset").HasField("graph_rewriter")
    assert override("train_config.batch_size", "unset").train_config.batch_size == 32
    quoted = override("train_config.fine_tune_checkpoint", "'unset'")
    assert quoted.train_config.fine_tune_checkpoint == "unset"


def test_an_empty_message_is_present():
    assert override("model.ssd.mask_head_config", "{}").model.ssd.HasField("mask_head_config")
    assert override("model.ssd.mask_head_config", {}).model.ssd.HasField("mask_head_config")


@cases(
    (
        "model.ssd.num_clases",
        3,
        ["Ssd has no field 'num_clases'; did you mean num_classes?", "model.ssd.num_classes"],
    ),
    ("ssd.num_classes", 3, ["nearest paths: model.ssd.num_classes"]),
    ("model.num_classes", 3, ["model.ssd.num_classes"]),
    ("optimizer.momentum_optimizer", "{}", ["train_config.optimizer.momentum_optimizer"]),
    ("num_clases", 3, ["did you mean num_classes"]),
    ("train_config.batch_size", "many", ["expected a whole number from 0", "found many"]),
    ("train_config.batch_size", "-1", ["from 0 to 4294967295, found -1"]),
    ("train_config.batch_size", "8 num_steps: 3", ["found 8 num_steps: 3"]),
    ("train_config.batch_size", "", ["found nothing"]),
    ("train_config.sync_replicas", "maybe", ["expected true or false, found maybe"]),
    ("train_config.fine_tune_checkpoint_version", "V3", ["one of UNKNOWN, V1, V2, found V3"]),
    ("train_config.gradient_clipping_by_norm", "nan", ["expected a number, found nan"]),
    ("train_config.gradient_clipping_by_norm", "1e39", ["expected a number, found 1e39"]),
    ("train_config.batch_size.much", 3, ["batch_size holds a whole number", "nothing follows it"]),
    ("train_config.batch_size[0]", 3, ["is single; leave out [0]"]),
    ("train_config[0].batch_size", 3, ["is single; leave out [0]"]),
    ("eval_input_reader.shuffle", True, ["is a list; write eval_input_reader[0], [+] or [*]"]),
    ("eval_input_reader[3].shuffle", True, ["element 3 does not exist, there are 1; use [+]"]),
    ("eval_input_reader[x].shuffle", True, ["a number, + or * in the brackets, found 'x'"]),
    ("train_config.freeze_variables[0]", "a", ["element 0 does not exist, there are 0"]),
    ("eval_config.super_categories", "a", ["is a map; write super_categories[KEY]"]),
    ("eval_config.super_categories[a].b", "c", ["nothing follows it"]),
    ("model.ssd.image_resizer", "{ fixed_shape_resizer { hight: 3 } }", ["did you mean height"]),
    ("model.ssd.image_resizer", {"fixed_shape_resizer": {"hight": 3}}, None),
    ("graph_rewriter", "{} } model { ssd {", ["check braces"]),
    ("graph_rewriter", "{} model { ssd {} }", ["nothing after it"]),
    ("train_config batch", 3, ["expected a field path"]),
    ("train_config..batch_size", 3, ["expected a field path"]),
    ("", 3, ["expected a field path"]),
)
def test_an_error_names_the_path_and_the_remedy(*, path, value, parts):
    if parts is None:
        with pytest.raises(ConfigError, match=r"fixed_shape_resizer, hight: .*did you mean height"):
            override(path, value)
        return
    message = refuse(path, value)
    for part in parts:
        assert part in message


def test_pairs_may_name_a_path_twice():
    path = "train_config.data_augmentation_options[+]"
    flips = [(f"{path}.random_horizontal_flip.probability", p) for p in (0.25, 0.75)]
    config = apply_overrides(load_pipeline_config(CENTER), [*flips, (path, "rgb_to_gray {}")])
    first, second, third = config.train_config.data_augmentation_options[-3:]
    assert first.random_horizontal_flip.probability == 0.25
    assert second.random_horizontal_flip.probability == 0.75
    assert third.HasField("rgb_to_gray")


def test_numbered_new_elements_stand_in_a_mapping():
    path = "eval_config.metrics_set"
    config = apply_overrides(load_pipeline_config(CENTER), {f"{path}[+]": "a", f"{path}[+2]": "b"})
    assert list(config.eval_config.metrics_set)[-2:] == ["a", "b"]
    readers = {"eval_input_reader[+].shuffle": True, "eval_input_reader[+2].num_epochs": 3}
    first, second = apply_overrides(load_pipeline_config(CENTER), readers).eval_input_reader
    assert (first.shuffle, second.num_epochs) == (True, 3)


def test_every_element_of_an_empty_list_is_an_error():
    assert "matches nothing" in refuse("eval_input_reader[*].shuffle", True, CENTER)


def test_a_key_of_the_wrong_type_is_an_error():
    path = (
        "model.faster_rcnn.second_stage_post_processing.calibration_config"
        ".class_id_function_approximations.class_id_xy_pairs_map[cat]"
    )
    assert "as key of class_id_xy_pairs_map, found 'cat'" in refuse(path, "{}", TWO_STAGE)


def test_a_file_of_overrides_is_merged(tmp_path):
    path = tmp_path / "more.config"
    path.write_text(
        "train_config { batch_size: 2 data_augmentation_options { rgb_to_gray {} } }\neval_input_reader {}"
    )
    config = load_pipeline_config(PYRAMID)
    merged = merge_override_file(config, str(path))
    assert (merged.train_config.batch_size, merged.train_config.num_steps) == (2, 1500)
    assert len(merged.train_config.data_augmentation_options) == 3
    assert len(merged.eval_input_reader) == 2
    assert config == load_pipeline_config(PYRAMID)
    with pytest.raises(ConfigError, match=r"train_config\.batch_sise") as caught:
        merge_override_text(config, "\ntrain_config { batch_sise: 2 }", where="more.config")
    assert caught.value.where == "more.config:2"


def leaves(message: Message, prefix: str = "") -> Iterator[tuple[str, str]]:
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


def element(field, value, made: str, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Message):
        yield made, "{}"
        yield from leaves(value, f"{path}.")
    elif field.enum_type is not None:
        yield made, field.enum_type.values_by_number[value].name
    elif isinstance(value, str):
        yield made, '"' + text_encoding.CEscape(value, as_utf8=False) + '"'
    else:
        yield made, float_text(value) if isinstance(value, float) else str(value)


def built_from(message: Message) -> TrainEvalPipelineConfig:
    built = TrainEvalPipelineConfig()
    for path, value in leaves(message):
        set_field(built, path, value)
    return built


@cases(*PATHS)
def test_overrides_build_a_whole_config(*, path):
    config = load_pipeline_config(path)
    assert built_from(config) == config


@settings(max_examples=60, deadline=None)
@given(messages(TrainEvalPipelineConfig.DESCRIPTOR))
def test_overrides_build_any_message(message):
    assert built_from(message) == message


NAMES = [
    "model",
    "ssd",
    "train_config",
    "batch_size",
    "eval_input_reader",
    "super_categories",
    "x",
    "optimizer",
    "",
]
VALUES = st.one_of(
    st.text(max_size=6),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.sampled_from(["{}", "[1]", "unset"]),
)


@st.composite
def paths(draw: st.DrawFn) -> str:
    indices = st.sampled_from(["", "", "[0]", "[+]", "[*]", "[-1]", "[x]", "["])
    return ".".join(draw(st.sampled_from(NAMES)) + draw(indices) for _ in range(draw(st.integers(1, 3))))


@settings(max_examples=120, deadline=None)
@given(paths(), VALUES)
def test_any_override_gives_a_config_or_one_error(path, value):
    config = load_pipeline_config(LAYERS)
    try:
        apply_overrides(config, {path: value})
    except ConfigError as error:
        assert error.where.startswith("override ")


def test_a_file_of_overrides_may_be_yaml_of_fields_and_values(tmp_path):
    path = tmp_path / "best.yaml"
    path.write_text("train_config.batch_size: 3\ntrain_config.validation: {every_steps: 4}\n")
    merged = merge_override_file(TrainEvalPipelineConfig(), str(path))
    assert (merged.train_config.batch_size, merged.train_config.validation.every_steps) == (3, 4)


@cases("- 1", "a: [", "1: 2", "train_config.no_such: 1")
def test_yaml_that_says_nothing_is_refused_with_its_file(tmp_path, *, text):
    path = tmp_path / "best.yml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"best\.yml|no_such"):
        merge_override_file(TrainEvalPipelineConfig(), str(path))
