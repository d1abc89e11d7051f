"""Detectors in TensorFlow Lite files: their heads, their runner and its trial."""

import dataclasses
import subprocess
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from detection_core.artifacts.tflite_metadata import BoxDecoding, TFLiteDescription
from detection_core.errors import ModelError
from detection_core.evaluation import tflite_trial
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.tflite_runner import (
    TFLiteRunner,
    output_places,
    suppressed_heads,
)
from detection_core.evaluation.tflite_trial import try_tflite
from detection_core.exporters.tflite_description import add_description
from detection_core.exporters.tflite_forms import input_normalisation
from detection_core.ops.post_process_options import PostProcessOptions
from detection_core.ops.resampling import resize_pixels
from detection_core.tasks.file_benchmark import BenchOptions, bench
from tests.support import tiny_files
from tests.support.bare_tflite import packed
from tests.support.cases import cases, refused
from tests.support.command_line import run_python
from tests.support.edge_files import converted
from tests.support.tiny_files import integer_file

# Two that overlap by a third, and one beside them; centre and size.
ANCHORS = [[0.5, 0.4, 0.4, 0.4], [0.5, 0.6, 0.4, 0.4], [0.5, 2.0, 0.4, 0.4]]
LIMITS = {"max_detections": 100, "nms_score_threshold": 0.0, "nms_iou_threshold": 0.3, "num_classes": 2}
SUPPRESSION = PostProcessOptions(y_scale=10.0, x_scale=10.0, h_scale=5.0, w_scale=5.0, **LIMITS)
DECODING = BoxDecoding(anchors=ANCHORS, sigmoid=True, post_process=SUPPRESSION)
SCORES = np.array([[0.2, -1.0], [-1.0, 0.5], [-2.0, -1.0]], np.float32)
NONE = np.zeros((3, 4), np.float32)
ENDINGS = {
    "import os; os.abort()": r"ends LiteRT natively \(SIGABRT\)",
    "import time; time.sleep(60)": "has not run once after 0.5 seconds",
    "import sys; sys.exit('no memory')": r"it refuses \(no memory\)",
}
IMAGE = np.random.default_rng(1).integers(0, 256, (48, 40, 3)).astype(np.uint8)
RESIZED = np.asarray(resize_pixels(tf.constant(IMAGE), tf.constant([32, 32])))
UNIT = ((127.5,), (127.5,))
BOXES, LIST, COUNT = [1, 10, 4], [1, 10], [1]
OP, CALL = "TFLite_Detection_PostProcess", "StatefulPartitionedCall"


def changed(**limits) -> BoxDecoding:
    return dataclasses.replace(DECODING, post_process=dataclasses.replace(SUPPRESSION, **limits))


def valid(codes: np.ndarray = NONE, **limits) -> list[np.ndarray]:
    """Return boxes, scores and classes of the detections with other limits."""
    found = suppressed_heads(codes, SCORES, changed(**limits))
    return [found[name][: int(found["count"])] for name in ("boxes", "scores", "classes")]


def test_boxes_are_decoded_and_suppress_each_other_as_mediapipe_does_it():
    boxes, scores, classes = valid()
    assert classes.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(scores, 1 / (1 + np.exp([-0.5, 1.0])), atol=1e-6)
    np.testing.assert_allclose(boxes[0], [0.3, 0.4, 0.7, 0.8], atol=1e-6)
    wide = {"nms_iou_threshold": 0.34}
    assert valid(**wide)[2].tolist() == [1.0, 0.0, 1.0]
    assert valid(**wide, max_detections=2, nms_score_threshold=0.56)[2].tolist() == [1.0]
    assert [part.shape for part in valid(nms_score_threshold=0.9)] == [(0, 4), (0,), (0,)]
    # Each kept box reports its best classes; class by class boxes of other classes stay.
    assert valid(max_classes_per_detection=2)[2].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert valid(use_regular_nms=True)[2].tolist() == [1.0, 0.0, 1.0, 0.0]
    # A limit of another program's making does not reserve that many rows.
    assert suppressed_heads(NONE, SCORES, changed(max_detections=2**31 - 1))["boxes"].shape == (6, 4)
    codes = np.zeros((3, 4), np.float32)
    codes[1] = [5.0, -5.0, 5.0 * np.log(2), 0.0]
    np.testing.assert_allclose(valid(codes)[0][0], [0.3, 0.2, 1.1, 0.6], atol=1e-6)
    plain = dataclasses.replace(DECODING, sigmoid=False)
    assert suppressed_heads(NONE, SCORES, plain)["scores"][:2].tolist() == [0.5, 0.0]


@cases(float("inf"), -1.0, 1e-38)
def test_damaged_quantization_is_one_message_for_every_user(tmp_path, *, value):
    path = tmp_path / "damaged.tflite"
    # The file with one scale for every tensor that has any.
    model: Any = schema.ModelT.InitFromPackedBuf(integer_file(), 0)
    for tensor in model.subgraphs[0].tensors:
        if tensor.quantization is not None and tensor.quantization.scale is not None:
            tensor.quantization.scale = np.full(len(tensor.quantization.scale), value, np.float32)
    path.write_bytes(packed(model))
    for use in (
        lambda: TFLiteRunner(str(path), normalisation=((127.5,), (127.5,))),
        lambda: bench([str(path)], BenchOptions(threads=(1,), runs=1)),
    ):
        assert refused(ModelError, "expected a file that LiteRT runs", use).where == str(path)


@cases(*ENDINGS)
def test_however_the_child_ends_it_is_one_message(monkeypatch, *, program):
    start = subprocess.run

    def run_instead(command, **given):
        return start([command[0], "-c", program], **given)

    monkeypatch.setattr(subprocess, "run", run_instead)
    monkeypatch.setattr(tflite_trial, "TIMEOUT_SECONDS", 0.5 if "sleep" in program else 60.0)
    refused(ModelError, ENDINGS[program], try_tflite, program.encode())


def test_a_whole_file_passes_and_the_child_s_memory_is_bounded():
    """Limits hold for the process that sets them, so a child of the test does."""
    program = (
        "import resource\n"
        "from detection_core.evaluation import tflite_trial as t\n"
        "t._MEMORY_BYTES = 2**30; t._limit(0)\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
        "try: bytearray(2**31)\n"
        "except MemoryError: print('refused')\n"
    )
    assert run_python(program).stdout.split() == [str(2**30), "0", "refused"]
    try_tflite(integer_file())
    try_tflite(integer_file(), threads=2)


def file_of(integer: bool, described: bool = True) -> bytes:
    content = tiny_files.file_of("int8" if integer else "float32")
    mean, std = input_normalisation(tiny_files.network(False))
    description = TFLiteDescription(name="tiny", mean=mean, std=std, labels=("a", "b", "c"))
    return add_description(content, description) if described else content


def written(path, content) -> str:
    path.write_bytes(content)
    return str(path)


def loaded(tmp_path, integer, **options):
    return load_runner(written(tmp_path / f"{integer}.tflite", file_of(integer)), **options)


def interpreted(content, network_input):
    """The file's outputs by hand, through its signature."""
    outputs = Interpreter(model_content=content).get_signature_runner()(input=network_input)
    return outputs["output_3"][0], outputs["output_1"][0], outputs["output_2"][0]


def test_an_integer_file_gets_the_bytes_of_an_image_as_mediapipe_feeds_them(tmp_path):
    # Its grid lies half a level beside the pixels: rounded, every second level would be lost.
    runner = loaded(tmp_path, True, threads=2)
    every_level = np.resize(np.arange(256, dtype=np.uint8), (32, 32, 3))
    np.testing.assert_array_equal(runner.prepare(every_level), every_level)
    signed = TFLiteRunner(written(tmp_path / "m.tflite", tiny_files.described("int8_int8_input")))
    np.testing.assert_array_equal(signed.prepare(every_level), every_level.astype(int) - 128)
    prepared = runner.prepare(IMAGE)
    assert prepared.dtype == np.uint8
    # This detector takes -1..1 in 255 steps, so that a pixel is its own quantised value.
    assert np.abs(prepared.astype(float) - RESIZED).max() <= 1.0
    _, scores, _ = interpreted(file_of(True), prepared[np.newaxis])
    found = runner(IMAGE)
    np.testing.assert_allclose(found.scores, scores)
    # A wrong normalisation or quantisation of either file would pull them far apart.
    np.testing.assert_allclose(loaded(tmp_path, False)(IMAGE).scores[:3], found.scores[:3], atol=0.05)


@cases(True, False)
def test_float_file(tmp_path, *, described):
    content = file_of(False, described)
    path = written(tmp_path / "m.tflite", content)
    runner = load_runner(path) if described else TFLiteRunner(path, normalisation=UNIT)
    found = runner(IMAGE, "x")
    boxes, scores, classes = interpreted(content, RESIZED[np.newaxis] / np.float32(127.5) - 1)
    assert found.source_id == "x"
    np.testing.assert_allclose(found.boxes, np.clip(boxes, 0, 1), atol=1e-5)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    np.testing.assert_array_equal(found.classes, classes)
    assert (np.diff(found.scores) <= 0).all()


def test_a_file_that_cannot_be_run_is_refused(tmp_path):
    mean = converted(lambda image: tf.reduce_mean(image, [1, 2]), [1, 8, 8, 3])
    unknown = file_of(False).replace(b"TFLite_Detection_PostProcess", b"TFLite_Detection_PostProcesS")
    for content, normalisation, message in (
        (b"rubbish, quite a bit of it", None, "expected a TensorFlow Lite file"),
        (b"\x00\x00\x00\x00TFL3" + b"\x00" * 64, UNIT, "found a damaged one, with no graph"),
        (unknown, None, "expected a file that LiteRT runs"),
        (file_of(False, described=False), None, "expected metadata with the input's normalisation"),
        (mean, UNIT, "expected the four outputs of TFLite_Detection_PostProcess"),
        # Refused before it is run.
        (file_of(True)[: len(file_of(True)) // 3], None, "found a damaged one"),
    ):
        path = written(tmp_path / "m.tflite", content)
        with pytest.raises(ModelError, match=message):
            TFLiteRunner(path, normalisation=normalisation) if normalisation else load_runner(path)


def interpreter_of(outputs):
    """Outputs as other exports name and order them; tensor index = 10 + place."""
    details = [{"name": n, "index": 10 + i, "shape": np.array(shape)} for i, (n, shape) in enumerate(outputs)]
    return types.SimpleNamespace(get_signature_list=dict, get_output_details=lambda: details)


@cases(
    (OP, ("", ":1", ":2", ":3"), "boxes classes scores count"),
    (OP, (":2", ":3", "", ":1"), "scores count boxes classes"),
    (CALL, (":31", ":32", ":33", ":34"), "boxes classes scores count"),
    (CALL, (":1", ":3", ":0", ":2"), "scores boxes count classes"),
)
def test_orders_of_outputs_that_exist(*, name, numbers, roles):
    shapes = {"boxes": BOXES, "count": COUNT}
    pairs = zip(numbers, roles.split(), strict=True)
    outputs = [(name + number, shapes.get(role, LIST)) for number, role in pairs]
    expected = {role: 10 + i for i, role in enumerate(roles.split())}
    assert output_places(interpreter_of(outputs), "m") == expected


@cases((LIST, LIST, BOXES, COUNT), (BOXES, LIST, LIST), (BOXES, LIST, COUNT, LIST))
def test_other_outputs_are_refused(*, shapes):
    outputs = list(zip("abcd", shapes, strict=False))
    refused(ModelError, "expected the four outputs", output_places, interpreter_of(outputs), "m")
