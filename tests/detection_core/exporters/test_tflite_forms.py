"""Input, output layouts and suppression in a TensorFlow Lite file."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib

import flatbuffers
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.hardware_accelerator import HardwareAccelerator
from ai_edge_litert.interpreter import Interpreter
from flatbuffers import flexbuffers
from google.protobuf import text_format
from tensorflow.lite.python import schema_py_generated as schema

from detection_core.allowed_values import OPERATION, TFLITE_FORMS
from detection_core.detectors.family import family_of
from detection_core.evaluation.tflite_runner import TFLiteRunner, suppressed_heads
from detection_core.exporters.tflite import Conversion, to_float32
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_forms import PIXELS as RAW_PIXELS
from detection_core.exporters.tflite_forms import file_normalisation, network_input, normalisation_of
from detection_core.exporters.tflite_post_process import (
    CLASSES_OF_THREADS,
    attribute_text,
    kernel_is_right,
    post_process_function,
)
from detection_core.families.efficientdet.build import build_efficientdet
from detection_core.families.ssd.tflite import post_process_options, tflite_function
from detection_core.ops.detection_post_process import CANDIDATES, plain_post_process
from detection_core.ops.post_process_options import PostProcessOptions
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import Images
from tests.support import efficientdet_goldens as goldens
from tests.support import tiny_files, tiny_network
from tests.support.cases import cases
from tests.support.tflite_operations import list_operations, outputs
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import DECODING, PIXELS, calibrated, described, file_of, network, run, tflite_of

pytestmark = pytest.mark.slow

ANCHORS, CLASSES, ROWS = 200, 5, 20
OPTIONS = PostProcessOptions(
    max_detections=ROWS, max_classes_per_detection=2, use_regular_nms=True, nms_score_threshold=0.25,
    nms_iou_threshold=0.5, num_classes=CLASSES, y_scale=10.0, x_scale=10.0, h_scale=5.0, w_scale=5.0,
)  # fmt: skip
NAMES = ("count", "scores", "classes", "boxes")


@functools.cache
def boxes():
    """Anchors in a few clusters, some beyond the image, and codes: float32 [A, 4] twice."""
    random = np.random.default_rng(0)
    centres = random.uniform(-0.2, 1.2, (25, 2)).repeat(ANCHORS // 25, axis=0)
    centres += random.normal(0, 0.02, (ANCHORS, 2))
    anchors = np.concatenate([centres, random.uniform(0.05, 0.4, (ANCHORS, 2))], axis=1)
    return anchors.astype(np.float32), random.normal(0, 1, (ANCHORS, 4)).astype(np.float32)


def suppression_file(post_process, options, anchors=None, codes=None) -> bytes:
    """Convert one of the ways to suppress."""
    anchors, codes = boxes() if anchors is None else (anchors, codes)

    def serve(values):
        found = post_process(tf.constant(codes[np.newaxis]), values, tf.constant(anchors))
        return found.count, found.scores, found.classes, found.boxes

    spec = tf.TensorSpec([1, len(anchors), options.num_classes + 1], tf.float32, name="input")
    function = tf.function(serve, autograph=False).get_concrete_function(spec)
    return to_float32(Conversion(function=function))


def detections(content, values, threads=1, rows_each=1):
    """What a file gives, up to its count."""
    runner = Interpreter(model_content=content, num_threads=threads).get_signature_runner()
    found = {NAMES[i]: value[0] for i, (_, value) in enumerate(sorted(runner(input=values).items()))}
    count = int(found.pop("count")) * rows_each
    return {name: value[:count] for name, value in found.items()}


def test_built_in_operations_stand_in_where_the_kernel_gives_something_else():
    options = dataclasses.replace(OPTIONS, num_classes=3)
    anchors = np.array([[0, 0, 1, 1], [2, 2, 1, 1], [4, 4, 1, 1]], np.float32)
    values = np.pad(np.eye(3, dtype=np.float32), [[0, 0], [1, 0]])[np.newaxis]
    for post_process, found in ((post_process_function, {0, 1}), (plain_post_process, {0, 1, 2})):
        content = suppression_file(post_process(options), options, anchors, np.zeros_like(anchors))
        assert set(detections(content, values)["classes"]) == {0, 1, 2}
        assert set(detections(content, values, threads=2)["classes"]) == found
    changes = {
        "across classes": ({"use_regular_nms": False}, True),
        "two classes": ({"num_classes": CLASSES_OF_THREADS}, True),
        "three classes": ({"num_classes": CLASSES_OF_THREADS + 1}, False),
        "few of a class": ({"num_classes": 1, "detections_per_class": 3}, False),
        "all of a class": ({"num_classes": 1, "detections_per_class": ROWS}, True),
        "many of a class": ({"num_classes": 1, "detections_per_class": 200, "max_detections": 200}, False),
    }
    for name, (changed, by_kernel) in changes.items():
        assert kernel_is_right(dataclasses.replace(OPTIONS, **changed)) == by_kernel, name


@cases("float32", "int8")
def test_a_file_without_post_processing_finds_what_the_network_finds(tmp_path, *, name):
    path = tmp_path / "model.tflite"
    path.write_bytes(described(name, "headless"))
    found = TFLiteRunner(str(path))(PIXELS[0].astype(np.uint8))
    images = Images(pixels=tf.constant(PIXELS[:1]), true_sizes=None, original_sizes=None, source_ids=None)
    predictions = network(name == "int8").predict(images, training=False)
    logits = predictions.class_logits.numpy()[0, :, 1:]
    wanted = suppressed_heads(predictions.box_codes.numpy()[0], logits, DECODING)
    boxes, scores = wanted["boxes"], wanted["scores"]
    tolerance = 1e-4 if name == "float32" else 0.05
    np.testing.assert_allclose(found.scores[:5], scores[:5], atol=tolerance)
    if name == "float32":
        np.testing.assert_allclose(found.boxes, np.clip(boxes, 0, 1), atol=1e-4)


@cases(*itertools.product(("float32", "float16", "int8"), TFLITE_FORMS))
def test_compiled_model_gives_what_the_interpreter_gives(*, name, form):
    content = described(name, form)
    image = tiny_files.inputs_of(content)[0]
    expected = run(content, image)
    model = CompiledModel.from_buffer(content, HardwareAccelerator.CPU)
    (signature,) = model.get_signature_list().values()
    assert signature["inputs"] == ["input"] and set(signature["outputs"]) == set(expected)
    taken, given = model.create_input_buffers(0), model.create_output_buffers(0)
    taken[0].write(image.ravel())
    model.run_by_index(0, taken, given)
    for output, buffer in zip(signature["outputs"], given, strict=True):
        found = buffer.read(expected[output].size, np.float32)
        np.testing.assert_array_equal(found, expected[output].ravel())


def test_integer_files_compute_in_integers_but_for_scores_to_rank_by():
    operations = list_operations(file_of("int8", "headless"))
    assert [operation.name for operation in operations if "float32" in operation.inputs] == []
    found = [operation.name for operation in operations if "float32" in operation.outputs]
    assert found == ["DEQUANTIZE"] * 2
    # A sigmoid's range is known to the converter, which made int8 of it again: 256 scores to rank by.
    without_background = dataclasses.replace(tiny_files.OPTIONS, num_classes=tiny_network.CLASSES + 1)
    for form in ("post_process", "plain_nms"):
        function = tflite_function(network(True), without_background, integer=True, form=form)
        converted = FORMATS["int8"].convert(Conversion(function=function))
        for content in (file_of("int8", form), converted):
            operations = list_operations(content)
            assert [op.outputs for op in operations if op.name == "LOGISTIC"] == [("float32",)], form
            assert sum(op.name == "QUANTIZE" for op in operations) == 1, form  # of the pixels


def scores(seed):
    values = np.random.default_rng(seed).uniform(0, 1, (1, len(boxes()[0]), CLASSES + 1))
    return values.astype(np.float32) ** 2


def same(found, expected):
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6, err_msg=name)


@functools.cache
def operation_file():
    return suppression_file(post_process_function(OPTIONS), OPTIONS)


def by_operation(options):
    """The operation with all attributes that its kernel reads, of which the converter hands on some."""
    model = schema.ModelT.InitFromPackedBuf(operation_file(), 0)
    (operator,) = [each for each in model.subgraphs[0].operators if each.customOptions is not None]
    attributes = flexbuffers.Loads(bytes(operator.customOptions))
    changed = {f.name: getattr(options, f.name) for f in dataclasses.fields(options)}
    assert changed.keys() - attributes.keys() == {"detections_per_class"}
    operator.customOptions = list(flexbuffers.Dumps(changed))
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def in_tensorflow(options, values):
    """What TensorFlow itself gives with built-in operations, up to the count."""
    anchors, codes = boxes()
    found = plain_post_process(options)(tf.constant(codes[np.newaxis]), tf.constant(values), anchors)
    count = int(found.count[0])
    assert not any(np.asarray(value)[0, count:].any() for value in found[:3])
    return {name: np.asarray(getattr(found, name))[0, :count] for name in NAMES[1:]}


VARIANTS = {
    "class by class": {},
    "few of a class": {"detections_per_class": 3},
    "one of a class": {"detections_per_class": 1, "max_detections": 50},
    "across classes": {"use_regular_nms": False},
    "one class a box": {"use_regular_nms": False, "max_classes_per_detection": 1},
    "every score": {"nms_score_threshold": -float("inf"), "nms_iou_threshold": 0.3},
    "nothing": {"nms_score_threshold": 1.5},
    "nothing across classes": {"nms_score_threshold": 1.5, "use_regular_nms": False},
}


@cases(*VARIANTS)
def test_built_in_operations_give_what_the_operation_gives_on_one_thread(*, variant):
    options = dataclasses.replace(OPTIONS, **VARIANTS[variant])
    kernel = by_operation(options)
    for seed in range(3):
        expected = best_rows(kernel, scores(seed), options)
        assert (len(expected["scores"]) > 0) == ("nothing" not in variant)
        same(in_tensorflow(options, scores(seed)), expected)


def best_rows(kernel, values, options):
    """Across classes the operation lists box by box, and counts boxes."""
    each = 1 if options.use_regular_nms else options.max_classes_per_detection
    found = detections(kernel, values, rows_each=each)
    order = np.argsort(-found["scores"], kind="stable")[: options.max_detections]
    return {name: value[order] for name, value in found.items()}


@cases("class by class", "few of a class", "one class a box")
def test_a_file_gives_the_same_with_any_number_of_threads(*, variant):
    options = dataclasses.replace(OPTIONS, **VARIANTS[variant])
    content = suppression_file(plain_post_process(options), options)
    names = {operation.name for operation in list_operations(content)}
    assert "NON_MAX_SUPPRESSION_V4" in names and "TFLite_Detection_PostProcess" not in names
    expected = best_rows(by_operation(options), scores(0), options)
    assert set(expected["classes"]) == set(range(CLASSES))
    for threads in (1, 2, 3, 4, 8):
        same(detections(content, scores(0), threads), expected)


def test_the_kernel_loses_a_class_for_its_threads_and_the_best_pairs_are_taken():
    """Where this fails LiteRT has mended its kernel."""
    kernel, values = by_operation(OPTIONS), scores(0)
    assert set(detections(kernel, values)["classes"]) == set(range(CLASSES))
    for threads in (2, 3, 4):
        lost = set(range(CLASSES)) - set(detections(kernel, values, threads)["classes"])
        assert lost == {threads}
    anchors = ANCHORS
    classes = CANDIDATES // anchors + 10
    options = dataclasses.replace(OPTIONS, num_classes=classes, nms_score_threshold=0.0)
    values = np.random.default_rng(1).uniform(0, 1, (1, anchors, classes + 1)).astype(np.float32)
    expected = detections(suppression_file(post_process_function(options), options), values)
    assert len(expected["scores"]) == ROWS
    same(in_tensorflow(options, values), expected)


GOLDEN = json.loads((pathlib.Path(__file__).parent / "data" / "signatures.json").read_text())["tflite"]
CONFIG = """
ssd {
  num_classes: 90
  box_coder { faster_rcnn_box_coder { y_scale: 10 x_scale: 10 height_scale: 5 width_scale: 5 } }
  post_processing { batch_non_max_suppression { score_threshold: 1e-8 iou_threshold: 0.6 } }
}
"""


def config(text: str = CONFIG) -> TrainEvalPipelineConfig:
    message = TrainEvalPipelineConfig()
    text_format.Parse(text, message.model)
    return message


def test_the_operation_has_the_published_attributes_and_rows_for_all_classes():
    post_process = post_process_function(post_process_options(config(), outputs(max_detections=10)))

    def serve(codes):
        return post_process(codes, tf.ones([1, 5, 91]) * codes[..., :1], tf.ones([5, 4]))

    function = tf.function(serve).get_concrete_function(tf.TensorSpec([1, 5, 4], tf.float32))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module())
    converter.allow_custom_ops = True
    model = schema.ModelT.InitFromPackedBuf(converter.convert(), 0)
    (operator,) = [o for o in model.subgraphs[0].operators if len(o.outputs) == 4]
    assert model.operatorCodes[operator.opcodeIndex].customCode.decode() == OPERATION
    found = flexbuffers.Loads(bytes(operator.customOptions))
    (expected,) = GOLDEN["custom_ops"]
    assert {name: pytest.approx(value) for name, value in expected["options"].items()} == found
    post_process = post_process_function(post_process_options(config(), outputs(max_detections=7)))
    found = post_process(tf.ones([1, 5, 4]), tf.ones([1, 5, 91]), tf.ones([5, 4]))
    assert [tensor.shape for tensor in found] == [(1, 7, 4), (1, 7), (1, 7), (1,)]
    assert not any(np.asarray(tensor).any() for tensor in found)
    few = config(CONFIG.replace("num_classes: 90", "num_classes: 2"))
    for about, changed, rows in ((config(), {}, 12), (config(), {"use_regular_nms": True}, 4), (few, {}, 8)):
        given = outputs(max_detections=4, classes_per_detection=3, **changed)
        options = post_process_options(about, given)
        assert options.rows == rows
        regular = 'key: "use_regular_nms" value { b: true }' in attribute_text(options)
        assert regular == bool(changed)


SIZES = tf.constant([[32, 32]])
IMAGE = Images(tf.constant(PIXELS[:1]), SIZES, SIZES, tf.constant(["a"]))
ALIKE = ((127.5,) * 3, (127.5,) * 3)
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


class PerChannel(TinyDetector):
    """A tiny detector whose channels are normalised as ImageNet's are."""

    def preprocess(self, pixels):
        mean, std = (tf.constant(each) for each in IMAGENET)
        return (pixels - mean) / std

    def with_network(self, network):
        return PerChannel(network)


def test_channels_are_normalised_in_the_file_where_they_differ_and_both_kinds_take_pixels():
    values = tf.random.normal([1, 2, 2, 3])
    assert file_normalisation(ALIKE) == ALIKE and network_input(values, ALIKE, integer=True) is values
    # MediaPipe refuses 127.5 beside 127.50001.
    assert normalisation_of(TinyDetector().preprocess) == ALIKE
    assert normalisation_of(PerChannel().preprocess) == IMAGENET
    assert file_normalisation(IMAGENET) == RAW_PIXELS
    found = network_input(tf.constant(PIXELS[:1]), IMAGENET, integer=False)
    np.testing.assert_allclose(found, (PIXELS[:1] - IMAGENET[0]) / IMAGENET[1], atol=1e-5)
    family = family_of(DetectionModel(efficientdet={}))
    for name in ("efficientdet-d0", "efficientdet-lite0"):
        message = goldens.message(name, 64, fpn_cell_repeats=1, box_class_repeats=1, fpn_num_filters=8)
        built = build_efficientdet(message, "model.efficientdet", None)
        mean, std = family.tflite.normalisation(built)
        assert len(set(mean)) == len(set(std)) == 1, name
    found = run(tflite_of(PerChannel(), integer=False), PIXELS[:1])
    expected = PerChannel().detect(IMAGE)
    np.testing.assert_allclose(found["output_1"][0, 0], expected.scores.numpy().max(), atol=1e-5)
    model = calibrated(PerChannel())
    content = tflite_of(model, integer=True)
    (details,) = Interpreter(model_content=content).get_input_details()
    assert details["dtype"] == np.uint8 and details["quantization"] == (1.0, 0)
    operations = [each.name for each in list_operations(content)]
    assert operations.index("CONV_2D") < operations.index("DEQUANTIZE")
    found = run(content, PIXELS[:1].astype(np.uint8))
    expected = model.detect(IMAGE)
    np.testing.assert_allclose(found["output_1"][0, :3], np.sort(expected.scores[0])[::-1][:3], atol=0.03)
