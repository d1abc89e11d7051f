import dataclasses
import functools

import flatbuffers
import numpy as np
import tensorflow as tf
from flatbuffers import flexbuffers
from tensorflow.lite.python import schema_py_generated as schema

from detection_core.exporters.tflite_plain_suppression import CANDIDATES, plain_post_process
from detection_core.exporters.tflite_post_process import post_process_function
from tests.detection_core.exporters import suppression_files
from tests.detection_core.exporters.suppression_files import (
    CLASSES,
    OPTIONS,
    boxes,
    detections,
    suppression_file,
)
from tests.support.cases import cases
from tests.support.tflite_operations import list_operations


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
    return {name: np.asarray(getattr(found, name))[0, :count] for name in suppression_files.NAMES[1:]}


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
    anchors = suppression_files.ANCHORS
    classes = CANDIDATES // anchors + 10
    options = dataclasses.replace(OPTIONS, num_classes=classes, nms_score_threshold=0.0)
    values = np.random.default_rng(1).uniform(0, 1, (1, anchors, classes + 1)).astype(np.float32)
    expected = detections(suppression_file(post_process_function(options), options), values)
    assert len(expected["scores"]) == suppression_files.ROWS
    same(in_tensorflow(options, values), expected)
