"""The two-stage configurations of the model zoo, whole: variables, outputs, losses.

`data/two_stage` holds each configuration's text and samples of what the reference computed with weights that
follow from their names, and its outputs for images smaller than the network's input.
"""

import dataclasses
import functools
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.checkpoint_names import FineTuneOptions
from detection_core.families.faster_rcnn.build import describe_faster_rcnn
from detection_core.families.faster_rcnn.checkpoint_names import checkpoint_names, object_paths
from detection_core.families.faster_rcnn.model import FasterRcnnModel
from detection_core.families.faster_rcnn.stages import all_stage_outputs
from detection_core.families.faster_rcnn.tensorflow_1_names import scoped_variables
from detection_core.ops.update_draws import update_draws
from detection_core.structures import Batch
from tests.support.batches import images_of
from tests.support.efficientdet_goldens import deterministic_weight, padded_truth
from tests.support.golden_networks import DATA, TOLERANCE, sample
from tests.support.two_stage import checkered_masks, masks_of

FOLDER = DATA / "two_stage"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*_rcnn_*.npz") if "padded" not in path.stem))
EXACT = FOLDER / "exact"
"""Small inputs; their configs sample all anchors and proposals, so no loss is random."""
OF_TENSORFLOW_1 = "faster_rcnn_inception_v2"
_LEAVES = {"weights": "kernel", "biases": "bias", "pointwise_weights": "kernel"}
_LEAVES |= {"depthwise_weights": "depthwise_kernel"}
SMALL = "faster_rcnn_resnet50_v1_640x640"
BOXES = [[0.1, 0.1, 0.5, 0.4], [0.3, 0.5, 0.9, 0.95], [0.6, 0.05, 0.75, 0.2]]
full_size = [pytest.mark.zoo, pytest.mark.slow]


@dataclasses.dataclass(frozen=True)
class Golden:
    """What is known of one configuration."""

    facts: dict
    arrays: dict[str, np.ndarray]

    @property
    def config(self):
        return parse_pipeline_config(self.facts["config"])

    @property
    def images(self):
        """The preprocessed input."""
        return pixels_of(self.facts["input_shape"])


@functools.cache
def golden_of(name):
    arrays = dict(np.load(FOLDER / f"{name}.npz"))
    return Golden(json.loads(arrays.pop("facts").tobytes()), arrays)


class RawInputModel(FasterRcnnModel):
    """Takes the golden input as it is."""

    def preprocess(self, pixels):
        return pixels


def paths_of(model, config):
    """Return the reference's names of the variables."""
    extractor = config.model.faster_rcnn.feature_extractor.type
    return scoped_variables(model, extractor) if extractor == OF_TENSORFLOW_1 else object_paths(model)


def filled(config):
    """Build a detector with deterministic weights, which takes its input as it is."""
    built = build_detector(config.model, seed=None)
    model = RawInputModel(built.networks, built.parts)
    for path, variable in paths_of(model, config).items():
        scope, _, leaf = path.rpartition("/")
        key = f"{scope}/{_LEAVES.get(leaf, leaf)}"
        variable.assign(deterministic_weight(key, tuple(variable.shape)))
    return model


def pixels_of(shape):
    return images_of(np.random.RandomState(0).standard_normal(shape).astype(np.float32))


def every_output(model, images):
    """Return a SavedModel's outputs and those of all stages, classes from 0."""
    outputs = {**all_stage_outputs(model.predict(images)), **model.serving_outputs(images)}
    return outputs | {"detection_classes": outputs["detection_classes"] - 1}


# Detections with scores this close have no order that another processor's rounding would keep.
EQUAL_SCORES = 1e-5


def rows(array, number):
    return np.asarray(array, np.float64).reshape(number, -1)


def matched(outputs, arrays):
    """Replace indices of proposals by their boxes, and tell which rows of the reference are here.

    A proposal may be at another index, and a detection at that of another with the same score.
    """
    found, wanted = dict(outputs), dict(arrays)
    if "detection_anchor_indices" in wanted:
        for side in (found, wanted):
            boxes = rows(side["proposal_boxes_normalized"], side["proposal_boxes_normalized"].size // 4)
            side["detection_anchor_indices"] = boxes[np.int64(side["detection_anchor_indices"]).reshape(-1)]
    scores = wanted["detection_scores"].reshape(-1, 1) - found["detection_scores"].reshape(1, -1)
    tied = np.abs(scores) < EQUAL_SCORES
    for name in ("detection_boxes", "detection_classes", "detection_anchor_indices"):
        if name in wanted:
            near = rows_near(wanted[name], found[name], len(tied))
            yield name, (near & tied).any(axis=1)
    boxes = wanted["proposal_boxes_normalized"]
    yield (
        "proposal_boxes_normalized",
        rows_near(boxes, found["proposal_boxes_normalized"], boxes.size // 4).any(axis=1),
    )


def rows_near(wanted, found, number):
    """Bool [N, N], which rows of two arrays are equal."""
    return np.isclose(rows(wanted, number)[:, None], rows(found, number)[None], **TOLERANCE).all(axis=-1)


def assert_near(outputs, arrays, what):
    """All detections and proposals are the reference's, in any order of equals, and nearly all other numbers.

    A sampled array holds too little of each row to find it in another place: 2 to 4 of 100 numbers differ
    where rows swap, most of them on processors without AVX-512.
    """
    assert len(arrays) > 10
    outputs = {name: np.asarray(outputs[name]) for name in arrays}
    whole = {name: found.all() for name, found in matched(outputs, arrays)}
    assert all(whole.values()), f"{what}: {whole}"
    for name in arrays.keys() - whole.keys():
        near = np.isclose(sample(outputs[name]), np.reshape(arrays[name], -1), **TOLERANCE)
        assert near.mean() > 0.95, f"{what}, {name}: {near.mean():.3f} are the same"
    for name in ("detection_scores", "num_detections", "anchors"):
        np.testing.assert_allclose(sample(outputs[name]), np.reshape(arrays[name], -1), **TOLERANCE)


def test_all_configurations_pass_the_checks_and_describe_their_variables():
    assert len(NAMES) == 9
    for name in NAMES:
        golden = golden_of(name)
        check_pipeline_config(golden.config, name)
    golden = golden_of(SMALL)
    model = build_detector(golden.config.model, seed=None)
    found = {path: list(variable.shape) for path, variable in object_paths(model).items()}
    assert found == golden.facts["variables"]
    text = describe_faster_rcnn(golden.config.model.faster_rcnn, model)
    assert text.summary == "faster_rcnn_resnet50_keras (resnet_v1, 2 stages)"
    assert text.rows == [("anchors", "12 every 16 pixels"), ("proposals", "up to 300")]
    before, after = golden.facts["preprocess"]
    np.testing.assert_allclose(model.preprocess(tf.constant([[[before]]]))[0, 0, 0], after, rtol=1e-5)
    # A classifier's checkpoint numbers the layers of both halves in one row.
    fillable = checkpoint_names().object_based.kinds["classification"](
        model, FineTuneOptions(kind="classification")
    )
    own = {id(variable): path for path, variable in object_paths(model).items()}
    prefixes = golden.facts["classification"]
    for variable, (path,) in fillable:
        layer, _, leaf = path.rpartition("/")
        start = prefixes.get(layer) or layer.replace("feature_extractor", prefixes["feature_extractor"])
        assert own[id(variable)] == f"{start}/{leaf}"
    assert len(fillable) == 265


@pytest.fixture(scope="module", params=NAMES)
def golden_model(request):
    golden = golden_of(request.param)
    return request.param, golden, filled(golden.config)


class TestFullSize:
    pytestmark = full_size

    def test_variables(self, golden_model):
        name, golden, model = golden_model
        found = {path: list(variable.shape) for path, variable in object_paths(model).items()}
        assert found == golden.facts["variables"], name
        counts = golden.facts["parameters"]
        trained = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
        assert trained == counts["trainable"]
        assert sum(int(np.prod(v.shape)) for v in model.variables) - trained == counts["non_trainable"]

    def test_forward_pass_and_detections(self, golden_model):
        name, golden, model = golden_model
        arrays = {key.split("/", 1)[1]: value for key, value in golden.arrays.items() if "bn_" not in key}
        outputs = every_output(model, golden.images)
        assert_near(outputs, arrays, name)
        anchors, facts = outputs["anchors"].numpy(), golden.facts["anchors"]
        assert len(anchors) == facts["count"]
        np.testing.assert_allclose(anchors[:8], facts["first_8"], rtol=1e-5, atol=1e-3)
        sums = anchors.astype(np.float64).sum(axis=0)
        np.testing.assert_allclose(sums, facts["checksum_column_sums"], rtol=1e-5)

    def test_training_losses(self, golden_model):
        """Samples are random: in six of them the objectness of a hundred anchors differed by a tenth."""
        name, golden, model = golden_model
        truth = padded_truth([(BOXES, [1, 17, 3])])
        if model.parts.stages == 3:
            height, width = golden.facts["input_shape"][1:3]
            truth = truth._replace(masks=masks_of(truth.boxes.numpy(), height, width))
        with update_draws(1, 0):
            losses = model.losses(Batch(golden.images, truth), training=True)
        for key, wanted in golden.facts["losses"].items():
            print(f"{key}: {float(losses[key]):.5f}, the reference's sample {wanted:.5f}")
            rtol = 0.15 if "objectness" in key else 0.05
            np.testing.assert_allclose(losses[key], wanted, rtol=rtol, atol=1e-3, err_msg=f"{name}, {key}")
        assert float(losses["Loss/regularization_loss"]) == 0.0
        variables = object_paths(model)
        for key, wanted in golden.arrays.items():
            if key.startswith("bn_after/") and "proposal_features" in key:
                path = re.sub(r"^bn_after/|/\.ATTRIBUTES.*$", "", key)
                np.testing.assert_allclose(sample(variables[path]), wanted, **TOLERANCE, err_msg=path)

    @pytest.mark.parametrize("case", ["faster_rcnn_resnet50", "faster_rcnn_resnet50_gpu"])
    def test_an_image_that_does_not_fill_the_input(self, case):
        """Its detections are relative to itself, and none lies in the padding."""
        wanted = dict(np.load(FOLDER / f"padded_{case}.npz"))
        name = SMALL if case == "faster_rcnn_resnet50" else "faster_rcnn_resnet50_v1_800x1333"
        config = golden_of(name).config
        resizer = config.model.faster_rcnn.image_resizer.keep_aspect_ratio_resizer
        resizer.min_dimension = resizer.max_dimension = 320
        model = filled(config)
        pixels = np.random.RandomState(0).standard_normal((1, 320, 320, 3)).astype(np.float32)
        outputs = every_output(model, images_of(pixels, wanted.pop("true_image_shapes")[:, :2].tolist()))
        arrays = {re.sub("^(predict|postprocess)_", "", key): value for key, value in wanted.items()}
        for key, value in arrays.items():
            found = outputs[key].numpy().reshape(-1)
            if value.size != found.size:
                found = sample(found)
            near = np.isclose(found, value.reshape(-1), **TOLERANCE)
            assert near.mean() > 0.98, f"{key}: {near.mean():.3f} are the same"

    @pytest.mark.parametrize("name", sorted(path.stem for path in EXACT.glob("*.npz")))
    def test_outputs_and_losses_are_the_reference_s(self, name):
        """On pyramids, without padding, and of TensorFlow 1."""
        arrays = dict(np.load(EXACT / f"{name}.npz"))
        facts = json.loads(arrays.pop("facts").tobytes())
        config = parse_pipeline_config(facts["config"])
        model = filled(config)
        found = {path: list(variable.shape) for path, variable in paths_of(model, config).items()}
        assert found == facts["variables"]
        images = pixels_of(facts["input_shape"])
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
        if model.parts.stages == 3:
            exact = np.zeros(truth.boxes.shape)
            for image, (boxes, _) in enumerate(facts["truth"]):
                exact[image, : len(boxes)] = boxes
            truth = truth._replace(masks=checkered_masks(exact, *facts["input_shape"][1:3]))
        losses = model.losses(Batch(pixels_of([2, *facts["input_shape"][1:]]), truth), training=True)
        for name_there, wanted in facts["losses"].items():
            key = name_there.replace("regularization", "Loss/regularization_loss")
            np.testing.assert_allclose(losses[key], wanted, rtol=2e-3, atol=1e-4, err_msg=key)
        assert all(value > 0.0 for key, value in facts["losses"].items() if "regularization" not in key)
