import types

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.detectors.ssd.tflite import input_normalisation
from detection_core.errors import ModelError
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.tflite_runner import Normalisation, TFLiteRunner, output_places
from detection_core.exporters.tflite_description import add_description
from detection_core.ops.resampling import resize_pixels
from tests.support import tiny_files
from tests.support.cases import cases, refused
from tests.support.edge_files import converted

IMAGE = np.random.default_rng(1).integers(0, 256, (48, 40, 3)).astype(np.uint8)
RESIZED = np.asarray(resize_pixels(tf.constant(IMAGE), tf.constant([32, 32])))
UNIT = Normalisation(mean=(127.5,), std=(127.5,))


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
        (file_of(False, described=False), None, "expected metadata that says how the input is normalised"),
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


BOXES, LIST, COUNT = [1, 10, 4], [1, 10], [1]
OP, CALL = "TFLite_Detection_PostProcess", "StatefulPartitionedCall"


@cases(
    ([(OP, BOXES), (f"{OP}:1", LIST), (f"{OP}:2", LIST), (f"{OP}:3", COUNT)], "boxes classes scores count"),
    ([(f"{OP}:2", LIST), (f"{OP}:3", COUNT), (OP, BOXES), (f"{OP}:1", LIST)], "scores count boxes classes"),
    (
        [(f"{CALL}:31", BOXES), (f"{CALL}:32", LIST), (f"{CALL}:33", LIST), (f"{CALL}:34", COUNT)],
        "boxes classes scores count",
    ),
    (
        [(f"{CALL}:1", LIST), (f"{CALL}:3", BOXES), (f"{CALL}:0", COUNT), (f"{CALL}:2", LIST)],
        "scores boxes count classes",
    ),
)
def test_orders_of_outputs_that_exist(*, outputs, roles):
    expected = {role: 10 + i for i, role in enumerate(roles.split())}
    assert output_places(interpreter_of(outputs), "m") == expected


@cases((LIST, LIST, BOXES, COUNT), (BOXES, LIST, LIST), (BOXES, LIST, COUNT, LIST))
def test_other_outputs_are_refused(*, shapes):
    outputs = list(zip("abcd", shapes, strict=False))
    refused(ModelError, "expected the four outputs", output_places, interpreter_of(outputs), "m")
