import dataclasses
import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from flatbuffers import flexbuffers
from google.protobuf import text_format
from tensorflow.lite.python import schema_py_generated as schema

from detection_core.config.messages.tflite import OPERATION
from detection_core.detectors.ssd.tflite import post_process_options
from detection_core.errors import ExportError
from detection_core.exporters.tflite_post_process import post_process_function
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import refused
from tests.support.tflite_outputs import outputs

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
        regular = 'key: "use_regular_nms" value { b: true }' in options.attribute_text()
        assert regular == bool(changed)


def test_an_attribute_that_the_operation_does_not_take_is_refused_by_name():
    options = post_process_options(config(), outputs(max_detections=10))
    for name, value, refusal in (
        ("max_detections", 0, "expected 1 or more, found 0; change export.max_detections"),
        ("max_classes_per_detection", 0, "expected 1 or more, found 0; change classes_per_detection"),
        ("detections_per_class", 0, "found 0; change max_detections_per_class of"),
        ("nms_score_threshold", -0.1, "expected 0 or more, found -0.1; change the score threshold"),
        ("nms_score_threshold", float("nan"), "expected 0 or more, found nan"),
        ("nms_iou_threshold", 0.0, "expected a number above 0, up to 1, found 0; change the IoU threshold"),
        ("nms_iou_threshold", 1.1, "found 1.1; change the IoU threshold"),
        ("num_classes", 0, "found 0; change the config's num_classes"),
        ("y_scale", 0.0, "expected a number above 0, found 0; change the box coder's scales"),
        ("w_scale", float("inf"), "found inf; change the box coder's scales"),
    ):
        with pytest.raises(ExportError, match=f"^{OPERATION}.{name}: .*{re.escape(refusal)}"):
            dataclasses.replace(options, **{name: value})
    # Every number among them has a range.
    for field in dataclasses.fields(options):
        if not isinstance(getattr(options, field.name), bool):
            refused(ExportError, field.name, dataclasses.replace, options, **{field.name: float("nan")})
