"""Two-stage detectors on pyramids, without padding, and of TensorFlow 1: outputs and losses of the reference.

`data/two_stage/exact` has small inputs. The configs sample all anchors and proposals, so no loss is random.
"""

import json
import re

import numpy as np
import pytest

from detection_core.builders.detector import build_detector
from detection_core.config.load import parse_pipeline_config
from detection_core.families.faster_rcnn.checkpoint_names import object_paths
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.families.faster_rcnn.stages import all_stage_outputs
from detection_core.families.faster_rcnn.tensorflow_1_names import scoped_variables
from detection_core.structures import Batch
from tests.support.batches import images_of
from tests.support.efficientdet_goldens import deterministic_weight, padded_truth
from tests.support.golden_networks import DATA, TOLERANCE, sample
from tests.support.two_stage import checkered_masks

pytestmark = [pytest.mark.zoo, pytest.mark.slow]
FOLDER = DATA / "two_stage" / "exact"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.npz")))
OF_TENSORFLOW_1 = "faster_rcnn_inception_v2"
_LEAVES = {
    "weights": "kernel",
    "biases": "bias",
    "depthwise_weights": "depthwise_kernel",
    "pointwise_weights": "kernel",
}


class RawInputModel(FasterRcnnModel):
    """Takes the golden input as it is."""

    def preprocess(self, pixels):
        return pixels


def _paths(model, config):
    """Return the reference's names of the variables."""
    extractor = config.model.faster_rcnn.feature_extractor.type
    return scoped_variables(model, extractor) if extractor == OF_TENSORFLOW_1 else object_paths(model)


def _filled(config):
    built = build_detector(config.model, seed=None)
    model = RawInputModel(built.networks, built.parts)
    for path, variable in _paths(model, config).items():
        scope, _, leaf = path.rpartition("/")
        key = f"{scope}/{_LEAVES.get(leaf, leaf)}"
        variable.assign(deterministic_weight(key, tuple(variable.shape)))
    return model


def _pixels(shape):
    return images_of(np.random.RandomState(0).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_losses_are_the_reference_s(name):
    arrays = dict(np.load(FOLDER / f"{name}.npz"))
    facts = json.loads(arrays.pop("facts").tobytes())
    config = parse_pipeline_config(facts["config"])
    model = _filled(config)
    found = {path: list(variable.shape) for path, variable in _paths(model, config).items()}
    assert found == facts["variables"]
    images = _pixels(facts["input_shape"])
    outputs = {**all_stage_outputs(model.predict(images)), **model.serving_outputs(images)}
    outputs["detection_classes"] -= 1
    far = {}
    for key, wanted in arrays.items():
        own = re.sub("^(predict|postprocess)/", "", key)
        near = np.isclose(sample(outputs[own]), wanted, **TOLERANCE).mean()
        # Proposals and detections with nearly equal scores swap.
        least = 1.0 if own in ("anchors", "num_detections", "rpn_box_encodings") else 0.97
        if near < least:
            far[key] = near
    assert not far
    np.testing.assert_allclose(
        sample(outputs["detection_scores"]), arrays["postprocess/detection_scores"], **TOLERANCE
    )
    truth = padded_truth([(boxes, classes) for boxes, classes in facts["truth"]])
    if model.stages == 3:
        exact = np.zeros(truth.boxes.shape)
        for image, (boxes, _) in enumerate(facts["truth"]):
            exact[image, : len(boxes)] = boxes
        truth = truth._replace(masks=checkered_masks(exact, *facts["input_shape"][1:3]))
    losses = model.losses(Batch(_pixels([2, *facts["input_shape"][1:]]), truth), training=True)
    for name_there, wanted in facts["losses"].items():
        key = name_there.replace("regularization", "Loss/regularization_loss")
        np.testing.assert_allclose(losses[key], wanted, rtol=2e-3, atol=1e-4, err_msg=key)
    assert all(value > 0.0 for key, value in facts["losses"].items() if "regularization" not in key)
