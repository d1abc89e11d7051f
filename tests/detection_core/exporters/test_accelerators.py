"""The lint: against LiteRT's own account for XNNPACK, and rule by rule for the others."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
import yaml

from detection_core.artifacts.tflite_graph import read_graph
from detection_core.builders.configured_model import configured_model
from detection_core.config.messages.tflite import OPERATION
from detection_core.detectors.family import TFLiteOutputOptions
from detection_core.exporters.accelerators import CONDITIONS, TABLE, families, lint, partitions
from detection_core.exporters.delegation import xnnpack_delegation
from detection_core.exporters.tflite import Conversion
from detection_core.exporters.tflite_formats import FORMATS
from detection_core.exporters.tflite_upsampling import repeat_by_copies
from detection_core.quantization.options import QuantizationOptions
from tests.detection_core.exporters.test_tflite import float_file, integer_file
from tests.detection_core.exporters.test_tflite_upsampling import upsampling
from tests.mediapipe.test_object_detector import detector, pictures
from tests.support.edge_files import convolutions


def test_every_row_has_a_public_source_and_known_conditions():
    with open(TABLE, encoding="utf-8") as file:
        table = yaml.safe_load(file)
    assert set(families()) == {"edgetpu", "nnapi", "hexagon", "ethosu", "xnnpack"}
    for name, family in table["families"].items():
        operators = [operator for row in family["rows"] for operator in row["operators"]]
        assert len(operators) == len(set(operators)), name
        for row in family["rows"]:
            assert table["sources"][row["source"]].startswith("https://")
            assert set(row.get("conditions", {})) <= set(CONDITIONS)
        assert table["sources"][family["note_source"]].startswith("https://")


def test_every_operation_of_the_table_is_one_of_tensorflow_lite():
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    with open(TABLE, encoding="utf-8") as file:
        table = yaml.safe_load(file)
    for family in table["families"].values():
        for row in family["rows"]:
            assert [name for name in row["operators"] if not hasattr(BuiltinOperator, name)] == []


@pytest.mark.parametrize(
    "content",
    [
        convolutions(),
        convolutions(between="reverse"),
        convolutions(between="reverse", integer=True),
        convolutions(between="concat5"),
        convolutions(between="concat5", integer=True),
        convolutions(between="concat6"),
        convolutions(between="concat6", integer=True),
        upsampling(6, 10),
        upsampling(6, 10, integer=False),
        repeat_by_copies(upsampling(6, 10)),
    ],
)
def test_what_xnnpack_takes_over_is_what_litert_says(content):
    delegation = xnnpack_delegation(content)
    expected = [len(part) for part in delegation.partitions]
    found = lint(content, "xnnpack")
    assert list(found.parts) == expected
    assert found.one_part == (len(expected) == 1)


def test_parts_are_divided_as_litert_divides_them_in_whole_detectors():
    for content in (float_file(), integer_file()):
        graph, delegation = read_graph(content), xnnpack_delegation(content)
        taken = {index for part in delegation.partitions for index in part}
        assert sorted(map(sorted, partitions(graph, taken))) == sorted(map(list, delegation.partitions))


@pytest.mark.parametrize("family", ["edgetpu", "nnapi", "hexagon", "ethosu", "xnnpack"])
def test_the_network_of_an_integer_detector_is_one_part_up_to_post_processing(family):
    found = lint(integer_file(), family)
    assert found.one_part and sum(found.parts) >= found.operations - 5
    staying = {ending.name for ending in found.endings if ending.before_post_processing}
    # Pixels become int8 before the part, scores and codes become floats behind it.
    assert staying <= {"QUANTIZE", "DEQUANTIZE", "MUL", "LOGISTIC"}
    assert all(ending.remedy for ending in found.endings if ending.before_post_processing)
    (post,) = [ending for ending in found.endings if ending.name == OPERATION]
    assert not post.before_post_processing and post.remedy


@pytest.mark.zoo
@pytest.mark.parametrize(
    "name",
    [
        "ssd_mobilenet_v2_320x320_coco17_tpu-8",
        "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8",
        "ssd_mobilenet_v1_fpn_640x640_coco17_tpu-8",
        "efficientdet-lite0",
    ],
)
def test_an_integer_detector_of_each_family_is_one_part(name):
    """EfficientDet-Lite has kernels of 5 x 5, which Hexagon's delegate does not take."""
    model, config = detector(name)
    family = configured_model(config).family
    rewritten = family.require_quantization().rewrite(model, QuantizationOptions(delay=0), None)
    rewritten.calibrate([tf.constant(pictures().astype(np.float32))])
    outputs = TFLiteOutputOptions(max_detections=10, classes_per_detection=1, use_regular_nms=False)
    function = family.require_tflite().function(rewritten.model, config, outputs, True)
    content = FORMATS["int8"].convert(Conversion(function=function))
    for accelerator in families():
        found = lint(content, accelerator)
        staying = {ending.name for ending in found.endings if ending.before_post_processing}
        if accelerator == "hexagon" and name.startswith("efficientdet"):
            assert "DEPTHWISE_CONV_2D" in staying
            continue
        assert found.one_part, (accelerator, found.parts)
        assert staying <= {"QUANTIZE", "DEQUANTIZE", "MUL", "LOGISTIC", "PAD"}, accelerator
    assert len(xnnpack_delegation(content).partitions) == 1


def test_the_edge_tpu_takes_nothing_behind_what_it_does_not_know():
    found = lint(upsampling(6, 10, half_pixel=True), "edgetpu")
    names = [op.name for op in read_graph(upsampling(6, 10, half_pixel=True)).operators]
    before = names.index("RESIZE_NEAREST_NEIGHBOR")
    assert sum(found.parts) < before + 1 and len(found.parts) <= 1
    (ending,) = [e for e in found.endings if e.name == "RESIZE_NEAREST_NEIGHBOR"]
    assert "version 2 at most wanted, 3 found" in ending.reason and "edgetpu/issues/187" in ending.source
    assert "copies" in ending.remedy


def test_a_float_file_is_refused_by_integer_accelerators_with_what_to_do():
    for family in ("edgetpu", "hexagon", "ethosu"):
        found = lint(convolutions(), family)
        assert found.parts == () and not found.one_part
        (ending,) = found.endings
        assert (ending.name, ending.count) == ("CONV_2D", 2) and "float32 found" in ending.reason
        assert "export int8" in ending.remedy


@functools.cache
def strided(stride: int, kernel: int) -> bytes:
    """An integer depthwise convolution."""
    weights = tf.random.stateless_uniform([kernel, kernel, 3, 1], [1, 2], -0.5, 0.5)

    def serve(image):
        return tf.nn.depthwise_conv2d(image, weights, [1, stride, stride, 1], "SAME")

    function = tf.function(serve).get_concrete_function(tf.TensorSpec([1, 16, 16, 3], tf.float32))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module())
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: [[tf.random.stateless_normal([1, 16, 16, 3], [1, 0])]]
    return bytes(converter.convert())


@functools.cache
def sliced(step: int) -> bytes:
    """An integer convolution, every so many rows of which are kept; of every one it would be a SLICE."""
    weights = tf.random.stateless_uniform([3, 3, 3, 4], [1, 2], -0.5, 0.5)

    def serve(image):
        found = tf.nn.conv2d(image, weights, 1, "SAME")
        return tf.strided_slice(found, [0, 2, 0, 0], [1, 10, 16, 4], [1, step, 1, 1])

    function = tf.function(serve).get_concrete_function(tf.TensorSpec([1, 16, 16, 3], tf.float32))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module())
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: [[tf.random.stateless_normal([1, 16, 16, 3], [1, 0])]]
    return bytes(converter.convert())


@pytest.mark.parametrize(
    ("family", "step", "reason"),
    [
        ("edgetpu", 2, "steps of 1 wanted, another found"),
        ("nnapi", 2, ""),
        ("hexagon", 2, ""),
        ("ethosu", 2, "steps of 1 wanted, another found"),
        ("xnnpack", 2, "float32 wanted, int8 found"),
    ],
)
def test_the_steps_of_a_slice_count_where_a_document_says_so(family, step, reason):
    assert "STRIDED_SLICE" in [op.name for op in read_graph(sliced(step)).operators]
    reasons = [e.reason for e in lint(sliced(step), family).endings if e.name == "STRIDED_SLICE"]
    assert reasons == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("family", "stride", "kernel", "reason"),
    [
        ("hexagon", 1, 3, ""),
        ("hexagon", 1, 5, "kernels of 3 x 3 wanted, 5 found"),
        ("hexagon", 4, 3, "strides of 3 at most wanted, 4 found"),
        ("ethosu", 2, 5, ""),
        ("ethosu", 4, 3, "strides of 3 at most wanted, 4 found"),
        ("edgetpu", 2, 5, ""),
    ],
)
def test_limits_of_an_operation_count(family, stride, kernel, reason):
    found = lint(strided(stride, kernel), family)
    reasons = [e.reason for e in found.endings if e.name == "DEPTHWISE_CONV_2D"]
    assert reasons == ([reason] if reason else [])
