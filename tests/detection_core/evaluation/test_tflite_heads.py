import numpy as np

from detection_core.artifacts.tflite_decoding import BoxDecoding
from detection_core.evaluation.tflite_heads import HeadSuppression, decoded_heads, suppressed_heads

# Two that overlap by a third, and one beside them; centre and size.
ANCHORS = np.array([[0.5, 0.4, 0.4, 0.4], [0.5, 0.6, 0.4, 0.4], [0.5, 2.0, 0.4, 0.4]], np.float32)
DECODING = BoxDecoding(anchors=ANCHORS, scales=(10.0, 10.0, 5.0, 5.0), num_classes=2, sigmoid=True)
SCORES = np.array([[0.2, -1.0], [-1.0, 0.5], [-2.0, -1.0]], np.float32)
NONE = np.zeros((3, 4), np.float32)


def test_boxes_are_decoded_and_suppress_each_other_as_mediapipe_does_it():
    boxes, scores, classes = suppressed_heads(NONE, SCORES, DECODING)
    assert classes.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(scores, 1 / (1 + np.exp([-0.5, 1.0])), atol=1e-6)
    np.testing.assert_allclose(boxes[0], [0.3, 0.4, 0.7, 0.8], atol=1e-6)
    found = suppressed_heads(NONE, SCORES, DECODING, HeadSuppression(overlap=0.34))
    assert found[2].tolist() == [1.0, 0.0, 1.0]
    few = HeadSuppression(overlap=0.34, max_detections=2, score_threshold=0.56)
    assert suppressed_heads(NONE, SCORES, DECODING, few)[2].tolist() == [1.0]
    nothing = HeadSuppression(score_threshold=0.9)
    assert [part.shape for part in suppressed_heads(NONE, SCORES, DECODING, nothing)] == [(0, 4), (0,), (0,)]
    codes = np.zeros((3, 4), np.float32)
    codes[0] = [5.0, -5.0, 5.0 * np.log(2), 0.0]
    np.testing.assert_allclose(decoded_heads(codes, DECODING)[0], [0.3, 0.0, 1.1, 0.4], atol=1e-6)
    plain = BoxDecoding(anchors=ANCHORS, scales=DECODING.scales, num_classes=2, sigmoid=False)
    assert suppressed_heads(NONE, SCORES, plain)[1].tolist() == [0.5]
