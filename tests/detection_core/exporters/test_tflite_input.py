import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from detection_core.detectors.family import family_of
from detection_core.exporters.tflite_input import PIXELS, file_normalisation, network_input
from detection_core.exporters.tflite_post_process import normalisation_of
from detection_core.families.efficientdet.build import build_efficientdet
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.structures import Images
from tests.support import efficientdet_goldens as goldens
from tests.support.tflite_operations import list_operations
from tests.support.tiny_detector import TinyDetector
from tests.support.tiny_files import PIXELS as PICTURES
from tests.support.tiny_files import calibrated, run, tflite_of

SIZES = tf.constant([[32, 32]])
IMAGE = Images(tf.constant(PICTURES[:1]), SIZES, SIZES, tf.constant(["a"]))
ALIKE = ((127.5,) * 3, (127.5,) * 3)
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


class PerChannel(TinyDetector):
    """A tiny detector whose channels are normalised as ImageNet's are."""

    def preprocess(self, pixels):
        mean, std = (tf.constant(each) for each in IMAGENET)
        return (pixels - mean) / std

    def with_network(self, network):
        return PerChannel(network)


def test_channels_are_normalised_in_the_file_where_they_differ_and_both_kinds_take_pixels():
    values = tf.random.normal([1, 2, 2, 3])
    assert file_normalisation(ALIKE) == ALIKE and network_input(values, ALIKE, integer=True) is values
    # MediaPipe refuses 127.5 beside 127.50001.
    assert normalisation_of(TinyDetector().preprocess) == ALIKE
    assert normalisation_of(PerChannel().preprocess) == IMAGENET
    assert file_normalisation(IMAGENET) == PIXELS
    found = network_input(tf.constant(PICTURES[:1]), IMAGENET, integer=False)
    np.testing.assert_allclose(found, (PICTURES[:1] - IMAGENET[0]) / IMAGENET[1], atol=1e-5)
    family = family_of(DetectionModel(efficientdet={}))
    for name in ("efficientdet-d0", "efficientdet-lite0"):
        message = goldens.message(name, 64, fpn_cell_repeats=1, box_class_repeats=1, fpn_num_filters=8)
        built = build_efficientdet(message, "model.efficientdet", None)
        mean, std = family.tflite.normalisation(built)
        assert len(set(mean)) == len(set(std)) == 1, name
    found = run(tflite_of(PerChannel(), integer=False), PICTURES[:1])
    expected = PerChannel().detect(IMAGE)
    np.testing.assert_allclose(found["output_1"][0, 0], expected.scores.numpy().max(), atol=1e-5)
    model = calibrated(PerChannel())
    content = tflite_of(model, integer=True)
    (details,) = Interpreter(model_content=content).get_input_details()
    assert details["dtype"] == np.uint8 and details["quantization"] == (1.0, 0)
    operations = [each.name for each in list_operations(content)]
    assert operations.index("CONV_2D") < operations.index("DEQUANTIZE")
    found = run(content, PICTURES[:1].astype(np.uint8))
    expected = model.detect(IMAGE)
    np.testing.assert_allclose(found["output_1"][0, :3], np.sort(expected.scores[0])[::-1][:3], atol=0.03)
