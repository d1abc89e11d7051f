"""TensorFlow Lite files of a small detector, in float and in integers."""

import numpy as np
import pytest
import tensorflow as tf

from detection_core.artifacts.quantization import QuantizationOptions
from detection_core.artifacts.tflite_file import network_operators, read_graph
from detection_core.artifacts.tflite_metadata import TFLiteDescription
from detection_core.builders.detector import build_detector
from detection_core.errors import ExportError
from detection_core.evaluation.runner import load_runner
from detection_core.exporters.operator_times import make_interpreter, operator_times
from detection_core.exporters.tflite import Conversion, to_float32, to_int8
from detection_core.exporters.tflite_description import add_description
from detection_core.families.center_net.family import FAMILY, FLOAT_STAGES
from detection_core.families.center_net.tflite import export_function, input_normalisation
from detection_core.optional.accelerators.accelerator_lint import lint
from tests.support.batches import images_of, noise
from tests.support.cases import refused
from tests.support.center_net_goldens import build_small, label_map, small_config
from tests.support.tflite_operations import list_operations, outputs
from tests.support.tiny_network import randomise

pytestmark = pytest.mark.slow

PIXELS = noise(2, 64, 64, 3)


@pytest.fixture(scope="module")
def detector():
    # Blue first, as the published hourglasses.
    built = build_small(
        options="bgr_ordering: true channel_means: [100, 110, 120] channel_stds: [70, 60, 50]"
    )
    randomise(built.network, 0)
    return built


def _served(content, pixels):
    runner = make_interpreter(content, threads=1, delegate="none").get_signature_runner()
    found = runner(input=pixels)
    return [found[f"output_{i}"] for i in range(4)]


def test_a_file_takes_pixels_and_finds_what_the_detector_finds(detector):
    function = export_function(detector, None, outputs(3), False)
    content = to_float32(Conversion(function=function))
    count, scores, classes, boxes = _served(content, PIXELS[:1])
    wanted = detector.detect(images_of(PIXELS[:1]))
    assert count.tolist() == [3.0] and boxes.shape == (1, 3, 4)
    np.testing.assert_allclose(scores, wanted.scores[:, :3], atol=1e-4)
    np.testing.assert_allclose(boxes, wanted.boxes[:, :3], atol=1e-3)
    np.testing.assert_array_equal(classes, wanted.classes[:, :3])
    assert input_normalisation(detector) == ((0.0,) * 3, (1.0,) * 3)
    names = {operation.name for operation in list_operations(content)}
    assert "TOPK_V2" in names and not {name for name in names if name.startswith("TFLite_")}


@pytest.fixture(scope="module")
def posed(tmp_path_factory):
    labels = tmp_path_factory.mktemp("posed") / "labels.pbtxt"
    labels.write_text(label_map(("start", "end"), name="bright"))
    config = small_config(labels=str(labels))
    config.model.center_net.num_classes = 1
    built = build_detector(config.model)
    randomise(built.network, 0)
    return built


def test_a_file_of_one_class_has_its_keypoints_too(posed, tmp_path):
    content = to_float32(Conversion(function=export_function(posed, None, outputs(4), False)))
    description = TFLiteDescription(name="n", mean=(0.0,) * 3, std=(1.0,) * 3, labels=("bright",))
    (tmp_path / "m.tflite").write_bytes(add_description(content, description))
    served = posed.serving_outputs(images_of(PIXELS[:1]))
    runner = make_interpreter(content, threads=1, delegate="none").get_signature_runner()
    found = runner(input=PIXELS[:1])
    names = ("keypoint_scores", "keypoints", "", "scores", "classes", "boxes")
    for i, name in enumerate(names):
        if name:
            wanted = served[f"detection_{name}"].numpy()[:, :4] - (1 if name == "classes" else 0)
            np.testing.assert_allclose(found[f"output_{i}"], wanted, atol=1e-3, err_msg=name)
    assert found["output_2"].tolist() == [4.0]
    instances = load_runner(str(tmp_path / "m.tflite"))(np.rint(PIXELS[0]).astype(np.uint8))
    assert instances.keypoints.shape == (4, 2, 2)
    graph = read_graph(content)  # The gate compares the heads; places of peaks are none.
    assert "TOPK_V2" not in {graph.operators[position].name for position in network_operators(graph)}


def test_an_integer_file_runs_its_network_in_integers(posed):
    rewritten = FAMILY.require_quantization().rewrite(posed, QuantizationOptions(delay=0), None)
    assert not rewritten.float_layers()
    assert {entry.layer for entry in rewritten.describe().not_quantized} == set(FLOAT_STAGES)
    rewritten.calibrate([tf.constant(PIXELS)])
    content = to_int8(Conversion(function=export_function(rewritten.model, None, outputs(3), True)))
    convolutions = [each for each in list_operations(content) if each.name == "CONV_2D"]
    assert len(convolutions) > 15 and {each.outputs for each in convolutions} == {("int8",)}
    staying = {ending.name for ending in lint(content, "nnapi").endings if ending.before_post_processing}
    assert staying <= {"QUANTIZE", "DEQUANTIZE"}, "the search for peaks is no part of the network"
    pixels = np.rint(PIXELS[:1]).astype(np.uint8)
    keypoint_scores, _, count, scores = _served(content, pixels)
    wanted = posed.serving_outputs(images_of(pixels.astype(np.float32)))
    np.testing.assert_allclose(scores, wanted["detection_scores"][:, :3], atol=0.05)
    assert keypoint_scores.shape == (1, 3, 2) and count.tolist() == [3.0]
    # Each of its operations can be timed.
    times = operator_times(content, threads=1, delegate="xnnpack", runs=1)
    assert all(time.milliseconds is not None for time in times)


MOBILE = {"mobilenet_v2_fpn_sep_conv": set(), "mobilenet_v2_fpn": set(), "mobilenet_v2": {"Conv2DTranspose"}}


@pytest.mark.parametrize("extractor", MOBILE)
def test_a_mobile_network_keeps_its_heads_in_integers_and_names_what_stays_in_float(extractor):
    mobile = build_small(extractor, options="depth_multiplier: 0.25")
    randomise(mobile.network, 0)
    rewritten = FAMILY.require_quantization().rewrite(mobile, QuantizationOptions(delay=0), None)
    reasons = " ".join(each.reason for each in rewritten.describe().not_quantized)
    assert {kind for kind in ("Conv2DTranspose", "UpSampling2D") if kind in reasons} == MOBILE[extractor]
    rewritten.calibrate([tf.constant(PIXELS)])
    predict = [each.network(mobile.preprocess(PIXELS), training=False) for each in (mobile, rewritten.model)]
    for wanted, found in zip(*predict, strict=True):
        noise_power = np.mean((found - wanted) ** 2)
        # What the gate asks of an int8 file: 10 dB.
        assert 10.0 * np.log10(np.mean(wanted**2) / noise_power) > 10.0


def test_raw_heads_are_refused(detector):
    headless = outputs(3, form="headless")
    refused(ExportError, "heatmaps have no anchors", lambda: export_function(detector, None, headless, False))
    assert FAMILY.tflite.decoding is None
