import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import DataError
from detection_core.exporters.served_inputs import INPUT_TYPES
from detection_core.exporters.signatures import serving_function
from detection_core.exporters.warm_up import prediction_log, served_value, write_warm_up
from tests.support.cases import cases, refused
from tests.support.served_requests import IMAGES, REQUESTS, RESIZER, example, read_logs
from tests.support.tiny_detector import TinyDetector


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
