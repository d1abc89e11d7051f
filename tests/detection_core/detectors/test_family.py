"""The protocol of detectors, and the table of families: added to from outside, each entry complete."""

import dataclasses
import sys

import pytest
import tensorflow as tf
from google.protobuf import text_format

from detection_core.allowed_values import SIDE, Option
from detection_core.builders.input_pipeline import model_image_resizer, resizer_name
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.pipeline import tflite_problems
from detection_core.config.messages.registered import option_values
from detection_core.data.resize import FixedShapeResizer
from detection_core.detectors import family as families
from detection_core.detectors.base import TOTAL_LOSS, Detector, InputShape, named_detections, with_total
from detection_core.detectors.family import (
    Family,
    extractor_type,
    family_name,
    family_of,
    find_family,
    model_message,
    register_family,
)
from detection_core.errors import ConfigError, ExportError, ModelError, Problem
from detection_core.protos.image_resizer_pb2 import ImageResizer
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import box_detections
from tests.support.cases import cases, refused
from tests.support.command_line import run_python
from tests.support.tiny_training import config_text


def test_a_detector_must_have_every_verb_and_an_input_shape_is_one_size_or_bounds():
    assert Detector.__abstractmethods__ == {"networks", "input_shape", "losses", "detect"}
    refused(TypeError, "abstract", Detector)
    assert InputShape.fixed((300, 200)).size == (300, 200)
    assert InputShape(smallest=(300, 200), largest=(600, 200)).size is None


def test_the_total_is_the_sum_in_order_without_an_older_total():
    parts = {"Loss/a": tf.constant(1e8), "Loss/b": tf.constant(3.0), "Loss/c": tf.constant(-1e8)}
    found = with_total({**parts, TOTAL_LOSS: tf.constant(77.0)})
    assert float(found[TOTAL_LOSS]) == float(parts["Loss/a"] + parts["Loss/b"] + parts["Loss/c"])
    assert list(found) == [*parts, TOTAL_LOSS]


def test_masks_and_keypoints_are_named_where_there_are_any_and_end_with_the_detections():
    classes, count = tf.zeros([1, 2], tf.int32), tf.constant([1])
    boxes = box_detections(boxes=tf.ones([1, 2, 4]), scores=tf.ones([1, 2]), classes=classes, count=count)
    found = named_detections(boxes)
    names = {"detection_boxes", "detection_scores", "detection_classes", "num_detections"}
    assert set(found) == names and {value.dtype for value in found.values()} == {tf.float32}
    assert found["detection_classes"].numpy().tolist() == [[1.0, 1.0]]
    assert boxes.masks.shape == (1, 2, 0, 0) and boxes.keypoints.shape == (1, 2, 0, 2)
    named = named_detections(boxes._replace(masks=tf.ones([1, 2, 7, 7]), keypoints=tf.ones([1, 2, 3, 2])))
    for name in ("detection_masks", "detection_keypoints"):
        assert named[name].numpy()[0].max(axis=(1, 2)).tolist() == [1.0, 0.0]


def model(text: str) -> DetectionModel:
    return text_format.Parse(text, DetectionModel())


TOY = Family(
    name="toy",
    build=lambda message, where, seed: None,
    describe=lambda message, detector: None,
    loss_names={},
)
TOY_MODEL = """
experimental_model {
  name: "toy"
  num_classes: 2
  image_resizer { fixed_shape_resizer { height: 8 width: 8 } }
}
"""
SIZED = dataclasses.replace(
    TOY,
    options={"size": Option(8, SIDE)},
    input_size=lambda message: (option_values(SIZED.options, message)["size"],) * 2,
)


def config_of(text: str) -> TrainEvalPipelineConfig:
    config = parse_pipeline_config(config_text())
    config.model.CopyFrom(model(text))
    return config


def problems_of(text: str) -> str:
    return str(refused(ConfigError, "", check_pipeline_config, config_of(text)))


@pytest.fixture
def table(monkeypatch):
    """The table, put back after the test."""
    monkeypatch.setattr(families, "FAMILIES", dict(families.FAMILIES))
    return families.FAMILIES


def test_the_table_and_its_records_are_read_without_tensorflow():
    code = (
        "import sys; from detection_core.config.load import parse_pipeline_config;"
        "from detection_core.config.check import check_pipeline_config;"
        "from detection_core.detectors.family import FAMILIES, find_family;"
        "import detection_core.families.efficientdet.family;"
        f"config = parse_pipeline_config({config_text()!r}); check_pipeline_config(config);"
        "assert find_family(config.model).name == 'ssd';"
        "assert not {'tensorflow', 'tf_keras', 'numpy'} & set(sys.modules), 'imported'"
    )
    run_python(code)


CAPABILITIES = ("checkpoints", "anchors", "tflite", "quantization", "level_outputs", "with_network")
# CenterNet has no anchors. The second stage of Faster R-CNN has others for every image.
LACKING = {
    "center_net": {"anchors", "level_outputs"},
    "faster_rcnn": {"tflite", "quantization", "level_outputs", "with_network"},
}


@cases(*families.FAMILIES)
def test_every_record_is_complete(*, name):
    entry = families.FAMILIES[name]
    family = find_family(model(f"{name} {{}}")) if isinstance(entry, str) else entry
    assert family.name == name
    assert bool(family.extractor_types) == hasattr(getattr(DetectionModel(), name), "feature_extractor")
    assert all(loss.startswith("Loss/") and short for loss, short in family.loss_names.items())
    names = family.require_checkpoint_names()
    assert names.object_based.kinds and names.name_based.kinds
    lacking = {each for each in CAPABILITIES if getattr(family, each) is None}
    assert lacking == LACKING.get(name, set())


def test_a_model_says_its_family_and_extractor():
    message = model('ssd { feature_extractor { type: "x" } }')
    assert family_name(message) == "ssd" and model_message(message)[1] == "model.ssd"
    assert extractor_type(message.ssd) == "x" and extractor_type(message) == ""
    assert family_name(model("")) == ""
    wanted = f"expected {' or '.join(families.FAMILIES)}, found x"
    refused(ConfigError, wanted, family_of, model('experimental_model { name: "x" }'))
    message = model('efficientdet { name: "efficientdet-d0" }')
    assert family_of(message).name == "efficientdet"
    assert family_of(message).input_size(message.efficientdet) == (512, 512)


def test_a_family_from_outside_is_found(table):
    register_family(TOY)
    assert family_of(model('experimental_model { name: "toy" }')) is TOY
    assert find_family(model('experimental_model { name: "other" }')) is None
    refused(ValueError, "found 'toy', which there is", register_family, TOY)
    families.FAMILIES.pop("toy")
    assert set(table) == {"ssd", "efficientdet", "center_net", "faster_rcnn"}


def test_a_config_of_a_family_from_outside_is_checked_by_it_and_by_nothing_else_s_rules(table):
    config = config_of(TOY_MODEL)
    refused(ConfigError, "no family of that name is registered", check_pipeline_config, config)
    register_family(TOY)
    check_pipeline_config(config)
    table["toy"] = dataclasses.replace(
        TOY, problems=lambda message, path: [Problem(path=path, message="expected a toy")]
    )
    refused(ConfigError, r"model.experimental_model: expected a toy", check_pipeline_config, config)


@cases(
    ("num_classes: 0", "num_classes", "number of classes without background, found 0"),
    ("num_classes: 2", "image_resizer", "expected one of keep_aspect_ratio_resizer"),
    ("num_classes: 2 image_resizer {}", "image_resizer", "expected one of keep_aspect_ratio_resizer"),
    ('num_classes: 2 options { key: "a" value: "1" }', "options[a]", "option of toy, which has none"),
)
def test_a_family_by_name_needs_what_every_family_needs(table, *, changed, path, words):
    table["toy"] = TOY
    found = problems_of(f'experimental_model {{ name: "toy" {changed} }}')
    assert f"model.experimental_model.{path}: " in found and words in found


def test_a_family_says_its_input_size_itself(table):
    register_family(SIZED)
    config = config_of('experimental_model { name: "toy" num_classes: 2 }')
    message = config.model.experimental_model
    for side in (8, 96):
        if side == 96:
            message.options["size"] = "96"
        check_pipeline_config(config)
        assert model_image_resizer(config.model) == FixedShapeResizer(height=side, width=side)
    assert resizer_name(config.model) == "fixed_shape_resizer"
    padded = "keep_aspect_ratio_resizer { min_dimension: 96 max_dimension: 96 pad_to_max_dimension: true }"
    message.image_resizer.CopyFrom(text_format.Parse(padded, ImageResizer()))
    check_pipeline_config(config)
    assert resizer_name(config.model) == "keep_aspect_ratio_resizer"


@cases(
    ('options { key: "size" value: "x" }', "options[size]", "expected a whole number, found 'x'"),
    ('options { key: "size" value: "0" }', "options[size]", "from 1 to 16,384, found 0"),
    (
        "image_resizer { fixed_shape_resizer { height: 8 width: 9 } }",
        "image_resizer",
        "expected a resizer to 8 x 8, which toy takes, found fixed_shape_resizer to another size",
    ),
)
def test_a_size_that_is_not_the_family_s_is_refused_once(table, *, changed, path, words):
    table["toy"] = SIZED
    found = problems_of(f'experimental_model {{ name: "toy" num_classes: 2 {changed} }}')
    assert words in found and found.count("model.experimental_model") == 1
    assert f"model.experimental_model.{path}: " in found


def test_the_extractor_is_one_that_the_family_has(table):
    resizer = "image_resizer { fixed_shape_resizer {} }"
    found = problems_of(
        f'center_net {{ num_classes: 1 {resizer} feature_extractor {{ type: "resnet_v1" }} }}'
    )
    assert "model.center_net.feature_extractor.type: expected one of hourglass_10, " in found
    assert "found 'resnet_v1'" in found


FAMILY_NAMES = "ssd or efficientdet or center_net"


def test_what_a_family_cannot_do_is_a_sentence(table):
    register_family(TOY)
    for error, sentence, call in (
        (ExportError, f"converts to TensorFlow Lite, {FAMILY_NAMES}, found toy", TOY.require_tflite),
        (
            ConfigError,
            f"can be quantized, {FAMILY_NAMES}, found toy; leave graph_rewriter out",
            TOY.require_quantization,
        ),
        (
            ModelError,
            f"{FAMILY_NAMES} or faster_rcnn, found toy; train without fine_tune_checkpoint",
            TOY.require_checkpoint_names,
        ),
        (ExportError, "on fixed levels, ssd or efficientdet, found toy; export", TOY.require_level_outputs),
        (ModelError, f"of one network, {FAMILY_NAMES}, found toy; train", TOY.require_with_network),
    ):
        refused(error, sentence, call)
    (problem,) = tflite_problems(parse_pipeline_config('model { experimental_model { name: "toy" } }'))
    assert problem.path == "model" and "found toy" in problem.message


def test_a_module_without_a_record_is_a_programmer_s_mistake(table, monkeypatch):
    table["toy"] = "tests.detection_core.detectors.test_family"
    monkeypatch.setattr(sys.modules[__name__], "FAMILY", "none", raising=False)
    refused(TypeError, "expected a Family as", find_family, model('experimental_model { name: "toy" }'))
