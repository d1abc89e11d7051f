"""Class weights of objects change the class loss of every family, and nothing else."""

import numpy as np
import tensorflow as tf

from detection_core.detectors.base import TOTAL_LOSS
from detection_core.structures import Batch
from tests.support.batches import images_of, noise
from tests.support.cases import cases
from tests.support.center_net_goldens import build_small
from tests.support.efficientdet_goldens import padded_truth
from tests.support.small_detectors import small_detector
from tests.support.two_stage import build, tiny_extractor


def _two_stage():
    with tiny_extractor():
        return build(2)


DETECTORS = {
    "ssd": (lambda: small_detector("ssd"), "Loss/classification_loss"),
    "efficientdet": (lambda: small_detector("efficientdet"), "Loss/classification_loss"),
    "center_net": (lambda: build_small(seed=None), "Loss/object_center"),
    "faster_rcnn": (_two_stage, "Loss/BoxClassifierLoss/classification_loss"),
}


@cases(*DETECTORS)
def test_only_the_class_loss_grows_in_proportion_to_the_weight_of_an_object(*, family):
    make, changed = DETECTORS[family]
    detector = make()
    truth = padded_truth([([[0.38, 0.13, 0.62, 0.37], [0.63, 0.13, 0.87, 0.37]], [1, 2])])
    images = images_of(noise(1, 64, 64, 3))

    def losses(*weights):
        weighted = truth._replace(class_weights=tf.constant([weights]))
        return detector.losses(Batch(images, weighted), training=False)

    plain, second, both = losses(1.0, 1.0), losses(1.0, 3.0), losses(5.0, 3.0)
    for name in plain.keys() - {changed, TOTAL_LOSS}:
        assert float(plain[name]) == float(both[name]), name
    gain, further = (float(b[changed] - a[changed]) for a, b in ((plain, second), (second, both)))
    assert gain > 0 and further > 0
    np.testing.assert_allclose(losses(1.0, 2.0)[changed] - plain[changed], gain / 2, rtol=1e-3)
    np.testing.assert_allclose(losses(3.0, 1.0)[changed] - plain[changed], further / 2, rtol=1e-3)
