import numpy as np
import pytest
import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.evaluation.signature_runner import SignatureRunner
from tests.support.cases import refused

IMAGE = np.zeros((8, 8, 3), np.uint8)


def outputs(count: float = 1.0) -> dict[str, tf.Tensor]:
    return {
        "detection_boxes": tf.constant([[[0.0, 0.1, 0.5, 0.6], [0.0, 0.0, 0.0, 0.0]]]),
        "detection_scores": tf.constant([[0.75, 0.0]]),
        "detection_classes": tf.constant([[3.0, 1.0]]),
        "num_detections": tf.constant([count]),
    }


def test_a_function_s_detections_are_counted_and_its_faults_named():
    seen = []

    def detect(image: tf.Tensor) -> dict[str, tf.Tensor]:
        seen.append(image.shape)
        return outputs()

    found = SignatureRunner(detect, "here")(IMAGE, "a")
    assert seen == [(1, 8, 8, 3)]
    assert (found.source_id, found.classes.tolist(), found.scores.tolist()) == ("a", [2], [0.75])

    def fail(image: tf.Tensor) -> dict[str, tf.Tensor]:
        raise tf.errors.InvalidArgumentError(None, None, "too small\nand its graph")

    with pytest.raises(ModelError, match=r"here: .* fails on image 'a' \(too small\)"):
        SignatureRunner(fail, "here")(IMAGE, "a")
    for count in (3.0, -1.0, float("nan")):
        runner = SignatureRunner(lambda image, count=count: outputs(count), "here")
        refused(ModelError, r"here: expected 0 to 2 detections .* image 'a'", runner, IMAGE, "a")
