"""TensorFlow Lite files of EfficientDets."""

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.exporters.tflite import Conversion, to_float16, to_float32, to_int8
from detection_core.exporters.tflite_forms import normalisation_of
from detection_core.exporters.tflite_post_process import attribute_text
from detection_core.families.efficientdet.build import build_efficientdet
from detection_core.families.efficientdet.family import FAMILY
from detection_core.families.efficientdet.tflite import post_process_options, tflite_function
from detection_core.protos.efficientdet_pb2 import EfficientDet
from tests.support import efficientdet_goldens as goldens
from tests.support.cases import cases
from tests.support.tflite_operations import list_operations, outputs

# Shapes in the order in which an interpreter lists the outputs of google/automl's files.
ORDER = [[1, 100], [1, 100, 4], [1], [1, 100]]
TOLERANCE = 0.03  # of scores, between float32 and int8
SIGNATURES = ("tflite_signature_default", "tflite_signature_hard_0p4_0p2")


@cases(*SIGNATURES)
def test_attributes_of_the_operation_equal_the_reference(*, case):
    def attributes(text):
        """Name to value, without numbers' notation."""
        found = {}
        for part in text.split("attr {")[1:]:
            value = part.partition("value {")[2].partition("}")[0].partition(":")[2].strip()
            known = value in ("true", "false")
            found[part.split('"')[1]] = value if known else pytest.approx(float(value))
        return found

    golden = goldens.cases("postprocess")[case]
    message = EfficientDet(name="efficientdet-d0", num_classes=3)
    for field, value in golden["params"]["nms_configs"].items():
        setattr(message.nms_configs, field, value)
    found = attribute_text(post_process_options(message, outputs(max_detections=100)))
    assert attributes(found) == attributes(golden["fact"])


def _float_conversion(model, message, detections):
    options = post_process_options(message, outputs(max_detections=detections))
    return Conversion(function=tflite_function(model, options, integer=False))


def _runner(content):
    return Interpreter(model_content=content).get_signature_runner()


@pytest.mark.slow
def test_a_file_detects_what_the_network_predicts():
    message, model = goldens.small_message(), goldens.small_detector()
    goldens.set_deterministic_weights(model.network, model.parts.settings)
    pixels = np.random.RandomState(0).standard_normal((1, 64, 64, 3)).astype(np.float32)
    found = _runner(to_float32(_float_conversion(model, message, 5)))(images=pixels)
    predictions = model.run(pixels, training=False)
    best = 1 / (1 + np.exp(-predictions.class_logits.numpy().max()))
    assert found["output_0"].tolist() == [5.0]
    np.testing.assert_allclose(found["output_1"][0, 0], best, 1e-4)
    assert found["output_3"].shape == (1, 5, 4)
    mean, std = normalisation_of(model.preprocess)
    assert mean == pytest.approx((127.0,) * 3, rel=1e-4) and std == pytest.approx((128.0,) * 3, rel=1e-4)


@pytest.mark.slow
def test_a_file_of_lite0_gives_what_the_reference_s_gives():
    message = goldens.message("efficientdet-lite0", 320)
    model = build_efficientdet(message, "model.efficientdet", None)
    goldens.set_deterministic_weights(model.network, model.parts.settings)
    conversion = _float_conversion(model, message, 100)
    content, half = to_float32(conversion), to_float16(conversion)
    pixels = np.random.RandomState(0).standard_normal((1, 320, 320, 3)).astype(np.float32)
    found, of_half = _runner(content)(images=pixels), _runner(half)(images=pixels)
    wanted = goldens.wanted("export_tflite", "lite0_FP32")
    # Weights take half of the bytes; 13,679,464 and 6,946,084 there.
    assert len(content) / len(half) == pytest.approx(13679464 / 6946084, rel=0.02)
    scores = np.load(goldens.DATA / "export_float16.npz")["output_1"]
    np.testing.assert_allclose(of_half["output_1"][0], scores, 1e-2)
    assert [d["shape"].tolist() for d in Interpreter(model_content=half).get_output_details()] == ORDER
    np.testing.assert_allclose(found["output_0"], wanted["output_0"])
    np.testing.assert_allclose(found["output_1"][0], wanted["output_1"], 1e-3)
    # Scores are nearly equal, so that their order is not: each of the best boxes is among ours.
    boxes, own = wanted["output_3"].reshape(-1, 4)[:50], found["output_3"][0]
    near = np.abs(own[np.newaxis] - boxes[:, np.newaxis]).max(axis=-1).min(axis=-1) < 1e-2
    assert near.mean() >= 0.96


@pytest.mark.zoo  # of lite0, test_export.py has a file of trained weights
@pytest.mark.parametrize("name", [f"efficientdet-lite{size}" for size in range(5)])
def test_a_lite_model_in_8_bits_computes_in_integers_what_the_float_one_does(name):
    """Sums of the feature network are plain, so that nothing before the scores is in float."""
    message = goldens.message(name, 128, num_classes=3)
    model = build_efficientdet(message, "model.efficientdet", 0)
    goldens.set_deterministic_weights(model.network, model.parts.settings)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 128, 128, 3)).astype(np.float32)
    rewritten = FAMILY.require_quantization().rewrite(model, QuantizationOptions(delay=0), None)
    rewritten.calibrate([tf.constant(pixels)])
    options = post_process_options(message, outputs(max_detections=20))
    content = to_int8(Conversion(function=tflite_function(rewritten.model, options, integer=True)))
    operations = list_operations(content)
    computing = [each for each in operations if each.name in ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD")]
    assert sum(each.name == "ADD" for each in computing) > 20
    assert all({*each.inputs, *each.outputs} <= {"int8", "int32"} for each in computing)
    # Scores stay in float: the background's column is added to them, before which the converter made int8
    # of a sigmoid. Only pixels are quantized.
    names = [each.name for each in operations]
    assert "LOGISTIC" in names and names.count("QUANTIZE") == 1
    float_run, integer_run = _runner(to_float32(_float_conversion(model, message, 20))), _runner(content)
    for image in pixels:
        expected = float_run(images=model.preprocess(image[np.newaxis]).numpy())["output_1"]
        found = integer_run(images=image[np.newaxis].astype(np.uint8))["output_1"]
        # Codes and logits of all levels have 256 steps.
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)
