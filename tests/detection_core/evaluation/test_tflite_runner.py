"""LiteRT against the SavedModel, on detectors that TensorFlow converts here."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.detectors.ssd.tflite import input_normalisation
from detection_core.errors import ModelError
from detection_core.evaluation.runner import load_runner
from detection_core.evaluation.tflite_runner import Normalisation, TFLiteRunner, output_places
from detection_core.exporters.tflite_description import add_description
from detection_core.ops.resampling import resize_pixels
from tests.detection_core.exporters.test_tflite import OPTIONS, quantized, tflite_of
from tests.support.cases import cases
from tests.support.tiny_detector import TinyDetector

IMAGE = np.random.default_rng(1).integers(0, 256, (48, 40, 3)).astype(np.uint8)
UNIT = Normalisation(mean=(127.5,), std=(127.5,))


@functools.cache
def file_of(integer: bool, described: bool = True) -> bytes:
    model = quantized() if integer else TinyDetector()
    content = tflite_of(model, OPTIONS, integer=integer)
    mean, std = input_normalisation(model)
    description = TFLiteDescription(name="tiny", mean=mean, std=std, labels=("a", "b", "c"))
    return add_description(content, description) if described else content


def written(path, content) -> str:
    path.write_bytes(content)
    return str(path)


def runner_of(path, normalisation=None):
    return TFLiteRunner(path, normalisation=normalisation)


def interpreted(content, network_input):
    """The file's outputs by hand, through its signature."""
    from ai_edge_litert.interpreter import Interpreter

    outputs = Interpreter(model_content=content).get_signature_runner()(input=network_input)
    return outputs["output_3"][0], outputs["output_1"][0], outputs["output_2"][0]


def test_an_integer_file_gets_the_bytes_of_an_image_as_mediapipe_feeds_them(tmp_path):
    # Its grid lies half a level beside the pixels: rounded, every second level would be lost.
    runner = load_runner(written(tmp_path / "m.tflite", file_of(True)))
    every_level = np.resize(np.arange(256, dtype=np.uint8), (32, 32, 3))
    np.testing.assert_array_equal(runner.prepare(every_level), every_level)


@cases(True, False)
def test_float_file(tmp_path, *, described):
    content = file_of(False, described)
    path = written(tmp_path / "m.tflite", content)
    found = (load_runner(path) if described else runner_of(path, UNIT))(IMAGE, "x")
    pixels = np.asarray(resize_pixels(tf.constant(IMAGE), tf.constant([32, 32])))
    boxes, scores, classes = interpreted(content, pixels[np.newaxis] / np.float32(127.5) - 1)
    assert found.source_id == "x"
    np.testing.assert_allclose(found.boxes, np.clip(boxes, 0, 1), atol=1e-5)
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    np.testing.assert_array_equal(found.classes, classes)
    assert (np.diff(found.scores) <= 0).all()


def test_integer_input_is_quantised_by_its_own_parameters(tmp_path):
    content = file_of(True)
    runner = load_runner(written(tmp_path / "m.tflite", content), threads=2)
    pixels = np.asarray(resize_pixels(tf.constant(IMAGE), tf.constant([32, 32])))
    prepared = runner.prepare(IMAGE)
    assert prepared.dtype == np.uint8
    # This detector takes -1..1 in 255 steps, so that a pixel is its own quantised value.
    assert np.abs(prepared.astype(float) - pixels).max() <= 1.0
    _, scores, _ = interpreted(content, prepared[np.newaxis])
    np.testing.assert_allclose(runner(IMAGE).scores, scores)


def test_both_files_see_the_same_picture(tmp_path):
    """A wrong normalisation or quantisation of either would pull them far apart."""
    best = [
        load_runner(written(tmp_path / f"{i}.tflite", file_of(i)))(IMAGE).scores[:3] for i in (False, True)
    ]
    np.testing.assert_allclose(best[0], best[1], atol=0.05)


def test_without_metadata_the_normalisation_is_not_guessed(tmp_path):
    with pytest.raises(ModelError, match="expected metadata that says how the input is normalised"):
        load_runner(written(tmp_path / "m.tflite", file_of(False, described=False)))


def test_what_litert_refuses(tmp_path):
    with pytest.raises(ModelError, match="expected a TensorFlow Lite file"):
        load_runner(written(tmp_path / "m.tflite", b"rubbish, quite a bit of it"))
    with pytest.raises(ModelError, match="found a damaged one, with no graph"):
        runner_of(written(tmp_path / "n.tflite", b"\x00\x00\x00\x00TFL3" + b"\x00" * 64), UNIT)
    unknown = file_of(False).replace(b"TFLite_Detection_PostProcess", b"TFLite_Detection_PostProcesS")
    with pytest.raises(ModelError, match="expected a file that LiteRT runs"):
        load_runner(written(tmp_path / "o.tflite", unknown))


def test_a_model_that_is_no_detector(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([1, 8, 8, 3])])
    def mean(image):
        return tf.reduce_mean(image, [1, 2])

    converter = tf.lite.TFLiteConverter.from_concrete_functions([mean.get_concrete_function()])
    with pytest.raises(ModelError, match="expected the four outputs of TFLite_Detection_PostProcess"):
        runner_of(written(tmp_path / "m.tflite", converter.convert()), UNIT)


class FakeInterpreter:
    """Outputs as other exports name and order them; tensor index = 10 + place."""

    def __init__(self, outputs):
        self.outputs = [
            {"name": name, "index": 10 + i, "shape": np.array(shape)}
            for i, (name, shape) in enumerate(outputs)
        ]

    def get_signature_list(self):
        return {}

    def get_output_details(self):
        return self.outputs


BOXES, LIST, COUNT = [1, 10, 4], [1, 10], [1]


@cases(
    (
        [
            ("TFLite_Detection_PostProcess", BOXES),
            ("TFLite_Detection_PostProcess:1", LIST),
            ("TFLite_Detection_PostProcess:2", LIST),
            ("TFLite_Detection_PostProcess:3", COUNT),
        ],
        ["boxes", "classes", "scores", "count"],
    ),
    (
        [
            ("TFLite_Detection_PostProcess:2", LIST),
            ("TFLite_Detection_PostProcess:3", COUNT),
            ("TFLite_Detection_PostProcess", BOXES),
            ("TFLite_Detection_PostProcess:1", LIST),
        ],
        ["scores", "count", "boxes", "classes"],
    ),
    (
        [
            ("StatefulPartitionedCall:31", BOXES),
            ("StatefulPartitionedCall:32", LIST),
            ("StatefulPartitionedCall:33", LIST),
            ("StatefulPartitionedCall:34", COUNT),
        ],
        ["boxes", "classes", "scores", "count"],
    ),
    (
        [
            ("StatefulPartitionedCall:1", LIST),
            ("StatefulPartitionedCall:3", BOXES),
            ("StatefulPartitionedCall:0", COUNT),
            ("StatefulPartitionedCall:2", LIST),
        ],
        ["scores", "boxes", "count", "classes"],
    ),
)
def test_orders_of_outputs_that_exist(*, outputs, roles):
    assert output_places(FakeInterpreter(outputs), "m") == {r: 10 + i for i, r in enumerate(roles)}


@cases(
    [("a", LIST), ("b", LIST), ("c", BOXES), ("d", COUNT)],
    [("a", BOXES), ("b", LIST), ("c", LIST)],
    [("a", BOXES), ("b", LIST), ("c", COUNT), ("d", LIST)],
)
def test_other_outputs_are_refused(*, outputs):
    with pytest.raises(ModelError, match="expected the four outputs"):
        output_places(FakeInterpreter(outputs), "m")


def test_a_file_that_refers_to_what_it_does_not_have_is_refused_before_it_is_run(tmp_path):
    content = file_of(True)
    with pytest.raises(ModelError, match="found a damaged one"):
        load_runner(written(tmp_path / "m.tflite", content[: len(content) // 3]))
