"""Configs and label maps as they are read."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.artifacts.evaluation import COCO_METRICS, TIDE_METRICS
from detection_core.config import load, metric_names, model_fields
from detection_core.config import load as blocks
from detection_core.config.input_paths import point_at_examples, with_readers_of
from detection_core.config.label_map_file import find_label_map, load_label_map, parse_label_map
from detection_core.config.load import (
    load_checked_config,
    load_pipeline_config,
    load_split_configs,
    parse_pipeline_config,
)
from detection_core.config.metric_names import check_metric_names
from detection_core.config.model_fields import (
    configured_classes,
    fine_tune_checkpoint,
    fit_anchors,
    with_classes,
)
from detection_core.config.paths.overrides import apply_overrides
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.config.text.text_proto import format_message
from detection_core.data import label_map as maps
from detection_core.detectors.family import FAMILIES, AnchorSupport, Family, register_family
from detection_core.errors import ConfigError
from detection_core.evaluation.metric_sets import MetricOptions, known_metrics
from detection_core.protos.eval_pb2 import EvalConfig
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.protos.string_int_label_map_pb2 import LVISFrequency
from tests.support.cases import cases, config_refused, refused
from tests.support.configs import CENTER, FOLDER, LAYERS, PYRAMID, TWO_STAGE, changed, line_with


def test_values_defaults_lists_and_maps_are_read():
    ssd = load_pipeline_config(PYRAMID).model.ssd
    assert (ssd.num_classes, ssd.feature_extractor.fpn.max_level) == (5, 6)
    assert ssd.loss.classification_loss.weighted_sigmoid_focal.alpha == pytest.approx(0.25)
    assert ssd.anchor_generator.multiscale_anchor_generator.anchor_scale == 4.0
    config = load_pipeline_config(LAYERS)
    assert type(config) is PipelineConfig and config.train_config.batch_size == 32
    anchors = config.model.ssd.anchor_generator.ssd_anchor_generator
    assert (list(anchors.width_stride), list(anchors.aspect_ratios)) == ([16, 32, 64, 128], [1, 2])
    steps = config.train_config.data_augmentation_options
    assert [s.WhichOneof("preprocessing_step") for s in steps] == ["ssd_random_crop", "random_adjust_hue"]
    pose = load_pipeline_config(CENTER).model.center_net.keypoint_estimation_task[0]
    assert sorted(pose.keypoint_label_to_std) == ["left eye", "nose"]
    second = load_pipeline_config(TWO_STAGE).model.faster_rcnn.second_stage_post_processing
    pairs = second.calibration_config.class_id_function_approximations.class_id_xy_pairs_map
    assert pairs[3].x_y_pair[1].y == pytest.approx(0.9)


def test_an_error_names_its_line(tmp_path):
    none = str(tmp_path / "none.config")
    assert refused(ConfigError, "check the path", load_pipeline_config, none).where == none
    path = tmp_path / "wrong.config"
    path.write_text(Path(PYRAMID).read_text().replace("unmatched_threshold: 0.4", "unmatched_threshold: 0.6"))
    message = r"argmax_matcher\.unmatched_threshold: expected at most"
    error = refused(ConfigError, message, load_checked_config, str(path))
    assert error.where == f"{path}:{line_with(PYRAMID, 'unmatched_threshold')}"
    found = load.with_line(ConfigError("expected one", where="model.ssd.image_resizer.none"), PYRAMID)
    assert found.where == f"{PYRAMID}:{line_with(PYRAMID, 'image_resizer')}"
    assert found.message == "model.ssd.image_resizer.none: expected one"
    elsewhere = load.with_line(ConfigError("expected one", where="labels.pbtxt:3"), PYRAMID)
    assert (elsewhere.where, elsewhere.message) == (PYRAMID, "labels.pbtxt:3: expected one")


def test_overrides_are_applied_before_the_check_files_first_and_written_as_run(tmp_path):
    assert load_checked_config(PYRAMID, {"num_classes": 2}).model.ssd.num_classes == 2
    error = refused(ConfigError, r"model\.ssd\.num_classes", load_checked_config, PYRAMID, {"num_classes": 0})
    assert error.where == f"{PYRAMID}:{line_with(PYRAMID, 'num_classes')}"
    first, second = tmp_path / "first.config", tmp_path / "second.config"
    first.write_text("train_config { batch_size: 2 num_steps: 3 }")
    second.write_text("train_config { num_steps: 4 }")
    train = load_checked_config(PYRAMID, override_files=[str(first), str(second)]).train_config
    assert (train.batch_size, train.num_steps) == (2, 4)
    config = load_checked_config(PYRAMID, {"train_steps": 9}, override_files=[str(first)])
    assert config.train_config.num_steps == 9
    config = load_checked_config(PYRAMID, {"train_steps": 7, "eval_config.max_evals": 2})
    path = str(tmp_path / "run" / "pipeline.config")
    load.write_as_run(config, path)
    assert load_pipeline_config(path) == config


def test_parts_make_the_whole_and_an_error_names_its_file(tmp_path):
    for path in (PYRAMID, TWO_STAGE):
        config = load_pipeline_config(path)

        def write(name, message):
            (tmp_path / name).write_text(format_message(message))
            return str(tmp_path / name)

        readers = [write(f"eval_{i}", reader) for i, reader in enumerate(config.eval_input_reader)]
        singles = ("model", "train_config", "train_input_reader", "eval_config", "graph_rewriter")
        parts = {name: write(name, getattr(config, name)) for name in singles if config.HasField(name)}
        assert load_split_configs(parts | {"eval_input_reader": readers}) == config
    assert load_split_configs({}) == TrainEvalPipelineConfig()
    (tmp_path / "train").write_text("batch_size: 3")
    given = {"train_config": str(tmp_path / "train"), "model": ""}
    assert load_split_configs(given).train_config.batch_size == 3
    (tmp_path / "model").write_text("ssd {\n num_clases: 3 }")
    wrong = {"model": str(tmp_path / "model")}
    assert config_refused(r"ssd\.num_clases", load_split_configs, wrong).where == f"{tmp_path / 'model'}:2"
    missing = {"eval_config": str(tmp_path / "none")}
    config_refused("cannot read the EvalConfig message", load_split_configs, missing)


def test_readers_point_at_the_splits_and_a_missing_one_is_added():
    config = load_pipeline_config(PYRAMID)
    pointed = point_at_examples(config, "/data/examples", eval_split="test")
    train, evaluation = pointed.train_input_reader, pointed.eval_input_reader[0]
    assert list(train.tf_record_input_reader.input_path) == ["/data/examples/Split-train/*.tfrecord*"]
    assert list(evaluation.tf_record_input_reader.input_path) == ["/data/examples/Split-test/*.tfrecord*"]
    assert train.label_map_path == evaluation.label_map_path == "/data/examples/label_map.pbtxt"
    assert not evaluation.shuffle  # as in the config
    assert config == load_pipeline_config(PYRAMID)
    [evaluation] = point_at_examples(load_pipeline_config(CENTER), "/data").eval_input_reader
    assert (evaluation.shuffle, evaluation.num_epochs) == (False, 1)


def test_one_of_several_readers_is_kept_and_said_and_a_config_reads_what_another_one_reads(caplog):
    pointed = point_at_examples(load_pipeline_config(TWO_STAGE), "/data")
    assert [reader.name for reader in pointed.eval_input_reader] == ["day"]
    assert "of 2 eval_input_reader the first is kept, and reads split eval" in caplog.text
    config = load_pipeline_config(PYRAMID)
    config.train_input_reader.tf_record_input_reader.input_path.append("more")
    config.train_input_reader.sample_from_datasets_weights.extend([0.9, 0.1])
    pointed = point_at_examples(config, "/data")
    assert not pointed.train_input_reader.sample_from_datasets_weights
    assert "sample_from_datasets_weights [0.9, 0.1] has no effect: split train" in caplog.text
    caplog.clear()
    point_at_examples(pointed, "/data")
    assert not caplog.records
    config = parse_pipeline_config("model { ssd { num_classes: 3 } } eval_input_reader { shuffle: true }")
    other = point_at_examples(parse_pipeline_config("train_config { batch_size: 5 }"), "/examples")
    read = with_readers_of(config, other)
    assert read.model == config.model and not read.HasField("train_config")
    assert read.train_input_reader == other.train_input_reader
    assert list(read.eval_input_reader) == list(other.eval_input_reader)
    assert config.eval_input_reader[0].shuffle


def _starting(path, start, **changes):
    return fine_tune_checkpoint(changed(path, {"train_config.fine_tune_checkpoint": start, **changes}))


def test_names_are_as_they_stand_and_imagenet_is_of_the_config_s_backbone():
    for start in ("", "weights/model.ckpt", "zoo:efficientdet_d0_coco17_tpu-32"):
        assert _starting(PYRAMID, start) == start
    multiplier = {"model.ssd.feature_extractor.depth_multiplier": 1.0}
    assert _starting(PYRAMID, "imagenet", **multiplier) == "imagenet:mobilenet_v2"
    config = parse_pipeline_config('train_config { fine_tune_checkpoint: "imagenet" }')
    assert fine_tune_checkpoint(config) == "imagenet"  # without a model nothing is known of it
    assert _starting(TWO_STAGE, "imagenet") == "imagenet:resnet50_v1"
    config_refused("published trained on ImageNet", _starting, CENTER, "imagenet")


GOLDENS = json.loads((FOLDER / "label_maps.json").read_text())["cases"]


@cases(*GOLDENS)
def test_texts_are_read_as_by_the_reference(*, case):
    if case.get("refused"):
        config_refused("", parse_label_map, case["text"])
        return
    label_map = parse_label_map(case["text"])
    assert label_map.num_classes == case["max_id"]
    assert {item.name: item.id for item in label_map.items} == case["ids"]
    assert {str(c + 1): label_map.names[c] for c in label_map.classes} == case["names"]
    for number in case["names_with_gaps"].keys() - case["names"].keys():
        assert label_map.names[int(number) - 1] == case["names_with_gaps"][number]


FORMS = """# Names for machines and for people, in any order and form.
item { id: 3, name: '/m/03', display_name: "third" }
item <
  name: "first"
  id: 1
  keypoints { id: 0 label: "nose" } keypoints { id: 4 label: "left eye" }
  frequency: RARE instance_count: 12
  ancestor_ids: 3 ancestor_ids: 4 descendant_ids: 5
>
item { id: 0 name: "background" }
"""


def test_every_form_and_field_is_read(tmp_path):
    path = tmp_path / "label_map.pbtxt"
    path.write_text(FORMS)
    label_map = load_label_map(str(path))
    first = maps.LabelMapItem(
        id=1, name="first", frequency="RARE", instance_count=12, ancestor_ids=(3, 4), descendant_ids=(5,),
        keypoints=(maps.Keypoint(id=0, label="nose"), maps.Keypoint(id=4, label="left eye")),
    )  # fmt: skip
    third = maps.LabelMapItem(id=3, name="/m/03", display_name="third")
    assert label_map == maps.LabelMap(items=(first, third))
    assert label_map.names == ["first", "2", "third"]
    config_refused("cannot read the label map", load_label_map, str(tmp_path / "none.pbtxt"))


@cases(
    ("", "expected at least one item", ""),
    ('item { id: 0 name: "background" }', "expected at least one item", ""),
    ('item { name: "cat" }', "id 0 is kept for the background", ""),
    ('item { id: -1 name: "cat" }', "expected ids of 1 or more, found id -1", ""),
    ("item { id: 2 }", "the item with id 2 has no name", ""),
    ('item { id: 1 name: "a" } item { id: 2 name: "a" }', "'a' stands for id 1 and id 2", ""),
    ('\nitem { id: 1 nam: "a" }', r"item\[0\]\.nam: .*did you mean name", ":2"),
    ('item {\n id: "a" name: "a" }', r"item\[0\]\.id: expected a whole number", ":2"),
)
def test_a_text_that_is_no_label_map_is_one_error(*, text, message, line):
    error = config_refused(message, lambda: parse_label_map(text, where="map.pbtxt"))
    assert error.where == f"map.pbtxt{line}"


def test_the_only_label_map_of_a_folder_is_found(tmp_path):
    assert find_label_map(str(tmp_path / "none")) is None and find_label_map(str(tmp_path)) is None
    (tmp_path / "graph.pbtxt").write_text("node { name: 'x' }")
    (tmp_path / "deep").mkdir()
    for name in ("a.pbtxt", "deep/b.pbtxt"):
        (tmp_path / name).write_text("item { id: 2 name: 'cat' }")
        assert find_label_map(str(tmp_path)).texts_by_id == {2: "cat"}
    (tmp_path / "c.pbtxt").write_text("item { id: 1 name: 'cat' }")
    assert find_label_map(str(tmp_path)) is None


def test_written_text_is_read_back():
    assert dict(LVISFrequency.items()) == {name: i for i, name in enumerate(maps.FREQUENCIES)}
    names = ['"quoted"', "back\\slash", "line\nbreak\ttab", "naïve 日本 \u2028", "a'b"]
    text = maps.format_label_map(maps.label_map_from_names(names))
    assert parse_label_map(text) == maps.label_map_from_names(names)
    assert text.count("\n") == 5 * 4  # a name never breaks its line


KEYPOINTS = st.builds(maps.Keypoint, id=st.integers(0, 9), label=st.text(max_size=3))
IDS = st.lists(st.integers(1, 9), max_size=2).map(tuple)
ITEMS = st.builds(
    maps.LabelMapItem, id=st.integers(1, 40), name=st.text(max_size=4), ancestor_ids=IDS, descendant_ids=IDS,
    display_name=st.text(min_size=1, max_size=4), keypoints=st.lists(KEYPOINTS, max_size=2).map(tuple),
    frequency=st.sampled_from(maps.FREQUENCIES), instance_count=st.integers(0, 1000),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=4, unique_by=(lambda item: item.id, lambda item: item.name)))
def test_any_label_map_comes_back_from_its_text(items):
    label_map = maps.LabelMap(items=tuple(items))
    assert parse_label_map(maps.format_label_map(label_map)) == label_map


BACKGROUND = "explicit_background_class: true"


def config(text, arm="ssd"):
    return parse_pipeline_config(f"model {{ {arm} {{ {text} }} }}")


@cases(
    ("num_classes: 4", 4, 4), (f"num_classes: 4 {BACKGROUND}", 3, 4), ("", None, 7), (BACKGROUND, None, 8),
    ("num_classes: 0", 0, 0),  # wrong, and refused by the check
)  # fmt: skip
def test_a_number_that_is_left_out_is_filled_in_and_a_given_one_stays(*, text, given, filled):
    before = config(text)
    assert configured_classes(before) == given
    after = with_classes(before, 7)
    assert after.model.ssd.num_classes == filled
    assert configured_classes(before) == given
    assert configured_classes(after) == (7 if given is None else given)


def test_every_model_has_the_field_and_an_explicit_background_is_no_class():
    for text, classes in ((f"num_classes: 4 {BACKGROUND}", 3), ("num_classes: 4", 4)):
        assert model_fields.foreground_classes(config(text).model.ssd) == classes
    for arm in ("ssd", "faster_rcnn", "center_net", "experimental_model"):
        assert model_fields.classes_field(config("", arm)) == f"model.{arm}.num_classes"
        assert configured_classes(with_classes(config("", arm), 3)) == 3
    empty = parse_pipeline_config("")
    assert configured_classes(empty) is None
    assert with_classes(empty, 3) == empty


@cases(*itertools.product([*metric_names.SET_PREFIXES, *TIDE_METRICS], [(0.0, 1.0), (0.2, 0.8)]))
def test_every_metric_of_an_evaluation_is_accepted(*, name, bounds):
    options = MetricOptions(sets=(name,), groups={"pets": ("cat",)}, recall_bounds=bounds)
    known = known_metrics(options, {0: "cat"})
    check_metric_names(known, EvalConfig(metrics_set=[name]), "w")
    assert len(known) > len(COCO_METRICS)


@cases(
    ("DetectionBoxes_Precision/mAP@.5IOU", "or 'DetectionBoxes_Precision/mAP@.50IOU'"),
    ("accuracy", "one is 'DetectionBoxes_Precision/mAP'"),
    ("PascalBoxes_Precision/mAP@0.5IOU", "add pascal_voc_detection_metrics to eval_config.metrics_set"),
    ("x" * 10_000, "one is"),
)
def test_any_other_is_refused_with_the_nearest(*, name, hint):
    caught = config_refused(r"^w: expected a metric", check_metric_names, [name], EvalConfig(), "w")
    assert hint in str(caught) and len(str(caught)) < 400


def _register(name, prefix):
    metric_names.register_metric_set(name, prefix=prefix, compute=lambda images, class_names: {})


def test_a_set_from_outside_is_known_under_one_name_and_one_prefix():
    _register("toy_metrics", "Toy")
    try:
        message = EvalConfig(metrics_set=["toy_metrics"])
        check_metric_names(["Toy_Found"], message, "thresholds")
        config_refused("add toy_metrics to", check_metric_names, ["Toy_Found"], EvalConfig(), "w")
        sets = ("coco_mask_metrics", "coco_detection_metrics", "pascal_voc_detection_metrics")
        for taken in ("toy_metrics", *sets):
            refused(ValueError, f"'{taken}', which is taken", _register, taken, "Other")
        for taken in ("Toy", "Keypoints", "PascalBoxes", "DetectionBoxes", "TIDEBoxes"):
            refused(ValueError, f"'{taken}', which is taken", _register, "other", taken)
    finally:
        metric_names.REGISTERED_SETS.pop("toy_metrics", None)
    config_refused("expected a metric of the eval", check_metric_names, ["Toy_Found"], message, "w")


def test_the_block_is_taken_out_and_put_back():
    text = "train_config { num_steps: 3 }"
    without = parse_pipeline_config(text)
    whole = parse_pipeline_config(f"{text} graph_rewriter {{ quantization {{ delay: 7 }} }}")
    rest = parse_pipeline_config(blocks.format_without_graph_rewriter(whole))
    assert rest == without == parse_pipeline_config(blocks.format_without_graph_rewriter(without))
    assert apply_overrides(rest, {blocks.GRAPH_REWRITER: blocks.format_graph_rewriter(whole)}) == whole
    assert whole.graph_rewriter.quantization.delay == 7, "the config itself stays as it is"
    assert blocks.has_graph_rewriter(whole) and not blocks.has_graph_rewriter(without)
    assert blocks.format_graph_rewriter(without) == ""
    assert blocks.has_graph_rewriter(parse_pipeline_config("graph_rewriter {}"))


BOXES = np.array([[0.1, 0.1, 0.15, 0.6], [0.3, 0.2, 0.35, 0.7]])


def test_a_config_is_changed_so_that_it_matches_more():
    fit = fit_anchors(load_pipeline_config(PYRAMID), BOXES)
    assert all(path.startswith("model.ssd.anchor_generator.") for path in fit.overrides)
    assert (fit.default, fit.fitted) == (0, 1)
    assert fit_anchors(changed(PYRAMID, fit.overrides), BOXES).default == 1


@cases(None, AnchorSupport(boxes=lambda message, where: BOXES))
def test_a_detector_without_anchors_that_may_be_chosen_has_none_to_fit(*, anchors):
    register_family(Family(name="blind", build=None, describe=None, loss_names={}, anchors=anchors))
    try:
        config = parse_pipeline_config('model { experimental_model { name: "blind" } }')
        assert fit_anchors(config, BOXES) is None
    finally:
        FAMILIES.pop("blind", None)
    config_refused("found blind", fit_anchors, config, BOXES)
