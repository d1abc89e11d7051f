"""How long a detector takes to start and to answer."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

from detection_core.artifacts.tflite_file import read_graph
from detection_core.errors import DataError, ModelError
from detection_core.exporters import operator_times as module
from detection_core.exporters.cold_start import measure_cold_start
from detection_core.exporters.operator_times import (
    DELEGATES,
    fill_inputs,
    make_interpreter,
    measure_latency,
    operator_times,
    time_inferences,
)
from detection_core.exporters.signatures import INPUT_TYPES, serving_function
from detection_core.exporters.tflite import Conversion, to_float16
from detection_core.exporters.warm_up import prediction_log, served_value, write_warm_up
from tests.support.cases import cases, refused
from tests.support.edge_files import converted, convolutions
from tests.support.python_traps import set_traps
from tests.support.served_requests import IMAGES, REQUESTS, RESIZER, example, read_logs
from tests.support.tiny_detector import TinyDetector


def multiplications(path, count: int) -> str:
    """A file that multiplies a matrix with itself `count` times."""

    def serve(x):
        for _ in range(count):
            x = tf.tanh(tf.matmul(x, x))
        return x

    path.write_bytes(converted(serve, [400, 400]))
    return str(path)


def test_inputs_of_integer_files_are_noise_over_all_codes():
    seen = {}

    class Recorder:
        def get_input_details(self):
            kinds = enumerate((np.uint8, np.int8, np.float32))
            return [{"index": i, "shape": [1, 64, 64, 3], "dtype": kind} for i, kind in kinds]

        def set_tensor(self, index, value):
            seen[index] = value

    fill_inputs(Recorder())
    ranges = [(v.dtype.name, int(v.min()), int(v.max())) for v in (seen[0], seen[1])]
    assert ranges == [("uint8", 0, 254), ("int8", -128, 126)]
    assert seen[2].dtype == np.float32 and -1 <= seen[2].min() < -0.99 and 0.99 < seen[2].max() <= 1


def test_every_run_is_timed_more_work_takes_longer_and_the_unit_is_milliseconds(tmp_path):
    little = measure_latency(multiplications(tmp_path / "a.tflite", 1), threads=1, runs=7)
    much = measure_latency(multiplications(tmp_path / "b.tflite", 30), threads=1, runs=7)
    for delegate in DELEGATES:
        content = (tmp_path / "a.tflite").read_bytes()
        assert len(time_inferences(content, threads=1, delegate=delegate, runs=5)) == 5
    # 400**3 multiplications take from a tenth of a millisecond to some tens, whatever the machine.
    assert 0.05 < little < 500 and much > 5 * little


@cases(*INPUT_TYPES)
def test_each_example_is_a_request_that_the_model_answers(tmp_path, *, name):
    examples = [example(image) for image in IMAGES]
    said = {"name": "input_tensor", "model": "ssd", "signature": "serving_default"}
    count = write_warm_up(str(tmp_path), examples, INPUT_TYPES[name], **said)
    logs = read_logs(tmp_path)
    assert count == len(logs) == 3
    function = serving_function(TinyDetector(), RESIZER, input_type=name)
    expected = function(REQUESTS[name](IMAGES))
    for i, log in enumerate(logs):
        request = log.predict_log.request
        assert (request.model_spec.name, request.model_spec.signature_name) == ("ssd", "serving_default")
        assert list(request.inputs) == ["input_tensor"]
        value = tf.make_ndarray(request.inputs["input_tensor"])
        found = function(tf.constant(value, INPUT_TYPES[name].dtype))
        np.testing.assert_allclose(found["detection_scores"][0], expected["detection_scores"][i], atol=1e-5)


def test_the_bytes_are_those_that_tensorflow_serving_s_own_classes_write():
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    log = prediction_log_pb2.PredictionLog()
    request = log.predict_log.request
    request.model_spec.name, request.model_spec.signature_name = "m" * 200, "s"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.arange(300, dtype=np.uint8)))
    ours = prediction_log({"x": tf.constant(np.arange(300, dtype=np.uint8))}, model="m" * 200, signature="s")
    assert prediction_log_pb2.PredictionLog.FromString(ours) == log


def test_odd_examples_are_errors_or_requests_to_their_last_byte(tmp_path):
    served = INPUT_TYPES["image_tensor"]
    arguments = {"name": "x", "model": "m", "signature": "s"}
    with pytest.raises(DataError, match="expected examples to warm up with, found none"):
        write_warm_up(str(tmp_path), [], served, **arguments)
    refused(DataError, "found another record", served_value, tf.train.Example().SerializeToString(), served)
    refused(DataError, "found another record", served_value, b"rubbish", served)
    # The bytes of a tf.Example may end in zeros, which numpy's own type of texts drops.
    content = example(IMAGES[0]) + b"\x12\x01\x00"  # a field that tf.Example does not have
    served = INPUT_TYPES["tf_example"]
    write_warm_up(str(tmp_path), [content], served, name="x", model="m", signature="s", batch_size=3)
    (log,) = read_logs(tmp_path)
    assert tf.make_ndarray(log.predict_log.request.inputs["x"]).tolist() == [content] * 3


@cases(False, True)
def test_a_cut_out_operation_gives_what_it_gives_in_the_whole(*, integer):
    content = convolutions(between="reverse", integer=integer)
    whole = make_interpreter(content, threads=1, delegate="none", keep_tensors=True)
    fill_inputs(whole)
    whole.invoke()
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for operator in model.subgraphs[0].operators:
        single, inputs = module._single(model, operator)
        assert len(read_graph(single).operators) == 1
        alone = make_interpreter(single, threads=1, delegate="none")
        for details, index in zip(alone.get_input_details(), inputs, strict=True):
            alone.set_tensor(details["index"], whole.get_tensor(index))
        alone.invoke()
        (output,) = alone.get_output_details()
        expected = whole.get_tensor(int(operator.outputs[0]))
        np.testing.assert_array_equal(alone.get_tensor(output["index"]), expected)


def test_every_operation_has_a_time_and_the_larger_one_the_larger():
    content = convolutions(between="reverse", side=96)
    times = operator_times(content, threads=1, delegate="none", runs=9)
    names = [op.name for op in read_graph(content).operators]
    assert [time.index for time in times] == list(range(len(names)))
    by_name = dict(zip(names, (time.milliseconds for time in times), strict=True))
    assert by_name["CONV_2D"] > by_name["REVERSE_V2"] > 0


def test_weights_that_are_computed_once_have_no_time():
    kernel = tf.random.stateless_uniform([3, 3, 3, 64], [1, 2])
    spec = tf.TensorSpec([1, 16, 16, 3], tf.float32, name="image")
    function = tf.function(lambda image: tf.nn.conv2d(image, kernel, 1, "SAME")).get_concrete_function(spec)
    content = to_float16(Conversion(function=function))
    times = operator_times(content, threads=1, delegate="xnnpack", runs=1)
    names = [op.name for op in read_graph(content).operators]
    assert sorted(set(names)) == ["CONV_2D", "DEQUANTIZE"]
    assert [time.milliseconds is None for time in times] == [name == "DEQUANTIZE" for name in names]


def test_loading_and_the_first_inference_are_told_apart_and_memory_grows_with_the_image(tmp_path):
    found = {}
    for side in (16, 512):
        path = tmp_path / f"{side}.tflite"
        path.write_bytes(convolutions(side=side))
        found[side] = measure_cold_start(str(path), threads=1, delegate="none")
    assert all(one.load_ms > 0 and one.first_ms > 0 for one in found.values())
    assert found[512].first_ms > found[16].first_ms
    if sys.platform == "linux":
        # Eight float channels of 512 x 512, before and after; what the tests hold themselves does not count.
        assert 8e6 < found[512].peak_memory_bytes < 400e6
        assert found[16].peak_memory_bytes < found[512].peak_memory_bytes


def test_a_file_that_does_not_run_is_named(tmp_path, monkeypatch):
    executed = set_traps(tmp_path / "started_in")
    monkeypatch.chdir(tmp_path / "started_in")
    path = tmp_path / "none.tflite"
    path.write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"none\.tflite: expected a file that LiteRT runs"):
        measure_cold_start(str(path), threads=1, delegate="none")
    assert not executed.exists()
