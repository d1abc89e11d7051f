"""TensorFlow Lite files: what they find, in which types they compute, and what each format is."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from google.protobuf import text_format

from detection_core.errors import ExportError
from detection_core.evaluation.results import iou_px
from detection_core.exporters.tflite import check_biases, check_convertible, integer_biases
from detection_core.exporters.tflite_formats import FORMATS, file_name
from detection_core.families.ssd.tflite import post_process_options
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import Images
from tests.support.cases import cases, refused
from tests.support.golden_networks import build_golden, load_golden
from tests.support.tflite_operations import list_operations, outputs
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import (
    INPUTS,
    OPTIONS,
    PIXELS,
    calibrated,
    convert,
    file_of,
    float_file,
    inputs_of,
    integer_file,
    quantized,
    run,
    tflite_of,
)
from tests.support.tiny_network import tiny_network

GOLDEN = json.loads((pathlib.Path(__file__).parent / "data" / "signatures.json").read_text())
CONVOLUTIONS = {"CONV_2D", "DEPTHWISE_CONV_2D"}


def reference(model: TinyDetector, classes: int = 1) -> dict[str, np.ndarray]:
    """Do by hand what the post-processing operation does: suppress by each anchor's best score.

    Rows are box by box, each with its best classes.
    """
    images = Images(pixels=tf.constant(PIXELS[:1]), true_sizes=None, original_sizes=None, source_ids=None)
    raw = model.raw_detections(model.predict(images, training=False))
    boxes, scores = raw.boxes[0].numpy(), raw.scores[0, :, 1:].numpy()
    best = scores.max(-1)
    overlaps = iou_px(boxes, boxes, np.zeros(len(boxes), bool))
    taken: list[int] = []
    for i in np.argsort(-best, kind="stable"):
        if len(taken) < OPTIONS.max_detections and (overlaps[i, taken] <= 0.6).all():
            taken.append(int(i))
    order = np.argsort(-scores[taken], axis=-1, kind="stable")[:, :classes]
    return {
        "boxes": np.repeat(boxes[taken], classes, axis=0),
        "classes": order.ravel(),
        "scores": np.take_along_axis(scores[taken], order, axis=-1).ravel(),
    }


def assert_finds(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found["output_0"] == [10.0]
    np.testing.assert_allclose(found["output_1"][0], expected["scores"], atol=1e-5, rtol=0)
    np.testing.assert_array_equal(found["output_2"][0], expected["classes"])
    np.testing.assert_allclose(found["output_3"][0], expected["boxes"], atol=1e-5, rtol=0)


def test_a_float_file_finds_what_the_model_finds_and_its_rows_are_the_best_pairs():
    assert_finds(run(float_file(), INPUTS[0]), reference(TinyDetector()))
    operations = list_operations(float_file())
    assert {op.outputs for op in operations if op.name in CONVOLUTIONS} == {("float32",)}
    interpreter = Interpreter(model_content=float_file())
    published = [facts["name"] for facts in GOLDEN["tflite"]["tflite_outputs_in_order"]]
    assert [d["name"] for d in interpreter.get_output_details()] == published
    assert interpreter.get_signature_list() == GOLDEN["tflite"]["tflite_signatures"]
    (entry,) = interpreter.get_input_details()
    assert entry["name"] == "serving_default_input:0" and list(entry["shape"]) == [1, 32, 32, 3]
    options = dataclasses.replace(OPTIONS, max_classes_per_detection=2)
    found = run(tflite_of(TinyDetector(), options, integer=False), INPUTS[0])
    pairs = reference(TinyDetector(), classes=2)
    best = np.argsort(-pairs["scores"], kind="stable")[: OPTIONS.max_detections]
    assert len(pairs["scores"]) == 20
    assert_finds(found, {name: values[best] for name, values in pairs.items()})
    # Some box really is there twice.
    assert len(np.unique(found["output_3"][0], axis=0)) < 10
    scores = reference(TinyDetector())["scores"]
    threshold = round(float(scores[2] + scores[3]) / 2, 6)  # the attribute has six decimals
    assert scores[3] < threshold < scores[2]
    options = dataclasses.replace(OPTIONS, max_classes_per_detection=2, nms_score_threshold=threshold)
    found = run(tflite_of(TinyDetector(), options, integer=False), INPUTS[0])
    assert found["output_0"] == [6.0]  # three boxes, each with two classes
    assert (found["output_1"][0, :6] > 0).all() and (found["output_1"][0, 6:] == 0).all()


def test_an_integer_file_computes_in_int8_from_pixels_to_scores():
    operations = list_operations(integer_file())
    convolutions = [op for op in operations if op.name in CONVOLUTIONS]
    assert len(convolutions) == 11
    for op in convolutions:
        assert op.inputs == ("int8", "int8", "int32") and op.outputs == ("int8",), op
    others = {op.name: op for op in operations if op.name not in CONVOLUTIONS}
    for name in ("ADD", "CONCATENATION", "RESHAPE", "MAX_POOL_2D"):
        assert others[name].outputs == ("int8",), others[name]
    assert "RESIZE_NEAREST_NEIGHBOR" not in others  # it would end what XNNPACK takes over
    scores = [op for op in operations if op.name == "LOGISTIC"]
    assert [op.outputs for op in scores] == [("float32",)]  # 256 scores are too few to rank by
    # One conversion in, one out for each of the two outputs, nothing in between.
    names = [op.name for op in operations]
    assert names.count("QUANTIZE") == 1 and names.count("DEQUANTIZE") == 2
    assert names[-1] == "TFLite_Detection_PostProcess"
    (entry,) = Interpreter(model_content=integer_file()).get_input_details()
    assert entry["dtype"] == np.uint8 and entry["quantization"] == (pytest.approx(1 / 127.5), 128)
    found = run(integer_file(), PIXELS[:1].astype(np.uint8))
    np.testing.assert_allclose(found["output_1"][0], reference(quantized())["scores"], atol=0.05, rtol=0)


def like_a_trained_one() -> TinyDetector:
    """Dead channels, as training leaves them: their normalisation scales by nearly 0 and adds a constant.

    And box codes of 80 that one anchor shape has.
    """
    network = tiny_network()
    for name in ("stem_bn", "dw_bn", "project_bn", "tower_bn_0", "tower_bn_1"):
        norm = network.get_layer(name)
        gamma, beta = norm.gamma.numpy(), norm.beta.numpy()
        gamma[:3], beta[:3] = [1e-9, -1e-10, 3e-8], [11.9, 4.0, 2.5]
        norm.gamma.assign(gamma)
        norm.beta.assign(beta)
    bias = network.get_layer("box").bias
    bias.assign(tf.concat([[80.0, -60.0], bias[2:]], 0))
    return TinyDetector(network)


def test_biases_of_dead_channels_are_kept_and_one_that_does_not_fit_is_refused(monkeypatch):
    model = calibrated(like_a_trained_one())
    content = tflite_of(model, integer=True)
    wanted = {
        layer.layer.name: np.sort(layer.layer.bias.numpy())
        for layer in model.network.layers
        if layer.name.startswith("quant_") and getattr(getattr(layer, "layer", None), "use_bias", False)
    }
    found = [np.sort(codes * scale) for codes, scale in integer_biases(content).values()]
    assert len(found) == len(wanted) == 11
    for name, bias in wanted.items():
        assert min(np.abs(f - bias).max() for f in found if f.shape == bias.shape) < 0.01, name
    assert max(np.abs(codes.astype(np.int64)).max() for codes, _ in integer_biases(content).values()) < 2**29
    scores = run(content, PIXELS[:1].astype(np.uint8))["output_1"][0]
    np.testing.assert_allclose(scores, reference(like_a_trained_one())["scores"], atol=0.05, rtol=0)
    # What the converter makes of a scale that is too small is 2^31 - 1, in silence.
    monkeypatch.setattr("detection_core.quantization.quantizers.LARGEST_BIAS", 2.0**60)
    refusal = r"expected biases up to 1073741824 .* found 2147483647 in channel"
    refused(ExportError, refusal, tflite_of, calibrated(like_a_trained_one()), integer=True)
    check_biases(integer_file())


def test_what_a_fixed_input_cannot_hold_is_refused():
    predictor = "weight_shared_convolutional_box_predictor { box_encodings_clip_range { min: -5 max: 5 } }"
    clipped = f"ssd {{ image_resizer {{ fixed_shape_resizer {{}} }} box_predictor {{ {predictor} }} }}"
    for text, message in (
        ("ssd { image_resizer { keep_aspect_ratio_resizer {} } }", "found keep_aspect_ratio_resizer"),
        (clipped, "box_encodings_clip_range: expected box codes as the network gives them"),
        (
            "faster_rcnn {}",
            "that converts to TensorFlow Lite, ssd or efficientdet or center_net, found faster_rcnn",
        ),
    ):
        config = TrainEvalPipelineConfig()
        text_format.Parse(text, config.model)
        refused(ExportError, message, check_convertible, config)


@pytest.mark.slow
def test_the_published_configuration_gives_the_published_numbers():
    golden = load_golden("ssd_mobilenet_v2_fpnlite_320x320")
    model = build_golden("ssd_mobilenet_v2_fpnlite_320x320")
    config = TrainEvalPipelineConfig(model=golden.message)
    options = post_process_options(config, outputs(max_detections=10))
    image = np.random.RandomState(0).standard_normal((1, 320, 320, 3)).astype(np.float32)
    found = run(tflite_of(model, options, integer=False), image)
    # The published numbers are in the order of the interpreter's outputs: scores, boxes, count, classes.
    for theirs, ours in enumerate(("output_1", "output_3", "output_0", "output_2")):
        expected = GOLDEN["fast_nms"][f"output_{theirs}"]
        np.testing.assert_allclose(found[ours], expected, rtol=1e-4, atol=1e-5, err_msg=ours)


def test_neither_threads_nor_kernels_change_what_is_found():
    regular = dataclasses.replace(OPTIONS, use_regular_nms=True)
    for integer, content in (
        (False, float_file()),
        (True, integer_file()),
        (False, tflite_of(TinyDetector(), regular, integer=False)),
        (True, tflite_of(quantized(), regular, integer=True)),
    ):
        for pixels in PIXELS[:2]:
            image = pixels.astype(np.uint8) if integer else pixels / 127.5 - 1
            firsts = []
            # With XNNPACK, and without.
            for resolver in (OpResolverType.BUILTIN, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
                options = {"model_content": content, "experimental_op_resolver_type": resolver}
                runners = (Interpreter(num_threads=n, **options).get_signature_runner() for n in (1, 2, 3, 4))
                first, *others = (runner(input=image[np.newaxis]) for runner in runners)
                for other in others:
                    for name, value in first.items():
                        np.testing.assert_array_equal(other[name], value, err_msg=name)
                firsts.append(first)
            for name in ("output_0", "output_1"):  # integers' scores have some hundred levels
                np.testing.assert_allclose(firsts[0][name], firsts[1][name], atol=0.02 if integer else 1e-5)
            if not integer:  # their equal scores may change places
                np.testing.assert_array_equal(firsts[0]["output_2"], firsts[1]["output_2"])
                np.testing.assert_allclose(firsts[0]["output_3"], firsts[1]["output_3"], atol=1e-5)


# Format to the types of a convolution's input and kernel, and how far its scores lie from float32's.
EXPECTED = {
    "float32": ("float32", "float32", 0.0),
    "float16": ("float32", "float32", 2e-3),
    "dynamic_range": ("float32", "float32", 0.1),  # so small kernels stay in float32
    **dict.fromkeys(
        ("int8", "int8_post_training", "int8_mixed", "int8_int8_input", "int8_float32_input"),
        ("int8", "int8", 0.15),
    ),
    "int16x8": ("int16", "int8", 0.03),
    "int8_weights": ("float32", "float32", 0.03),
    "int4_weights": ("float32", "float32", 0.3),
}
OF_TRAINED_WEIGHTS = ("float16", "dynamic_range", "int16x8", "int8_weights", "int4_weights")
INTEGER_INPUTS = {"int8": np.uint8, "int8_post_training": np.uint8, "int8_int8_input": np.int8}


@pytest.mark.slow
@cases(*EXPECTED)
def test_a_file_computes_in_its_types_what_the_float_file_does(*, name):
    activations, kernels, tolerance = EXPECTED[name]
    content, plain = file_of(name), file_of("float32")
    operations = list_operations(content)
    convolutions = [op for op in operations if op.name in ("CONV_2D", "DEPTHWISE_CONV_2D")]
    assert {op.inputs[:2] for op in convolutions} == {(activations, kernels)}
    (post_process,) = (op for op in operations if op.name == "TFLite_Detection_PostProcess")
    assert {*post_process.inputs, *post_process.outputs} == {"float32"}
    for taken, wanted in zip(inputs_of(content), inputs_of(plain), strict=True):
        found, expected = run(content, taken), run(plain, wanted)
        assert found["output_0"] == expected["output_0"]
        np.testing.assert_allclose(found["output_1"], expected["output_1"], atol=tolerance, rtol=0)
        # Classes are whole numbers, in whatever the network computes.
        assert set(np.unique(found["output_2"])) <= {0.0, 1.0, 2.0}


@pytest.mark.slow
def test_types_of_inputs_and_weights_are_every_format_s_and_bytes_always_the_same():
    aware = [f"{name}_aware" for name in OF_TRAINED_WEIGHTS]
    assert [*EXPECTED, "int8_mixed_aware", *aware] == list(FORMATS)
    for name in OF_TRAINED_WEIGHTS:  # the same conversion, of another network
        assert FORMATS[f"{name}_aware"].convert is FORMATS[name].convert
    assert [file_name(name) for name in ("float32", "int8")] == ["model_float32.tflite", "model_int8.tflite"]
    for name in (*INTEGER_INPUTS, "int8_float32_input", "int16x8"):
        (taken,) = Interpreter(model_content=file_of(name)).get_input_details()
        assert taken["dtype"] == INTEGER_INPUTS.get(name, np.float32), name
    stored = {
        name: sorted(op.inputs[0] for op in list_operations(file_of(name)) if op.name == "DEQUANTIZE")
        for name in ("float16", "int8_weights", "int4_weights")
    }
    kernels = 7  # stem, depthwise, project, fine, coarse, tower, and the joined or own heads' two, less one
    assert set(stored["float16"]) == {"float16"}
    assert set(stored["int8_weights"]) == {"int8"} and len(stored["int8_weights"]) >= kernels
    assert set(stored["int4_weights"]) == {"int4", "int8"}
    assert stored["int4_weights"].count("int8") == 1  # the depthwise convolution
    for name in ("int8", "int16x8", "int4_weights"):
        assert convert(name) == file_of(name), name
