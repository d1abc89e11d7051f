"""The MobileNetV2 and ResNet configurations of the model zoo, whole: variables, outputs, losses, one update.

`data/zoo` holds each configuration's text and what `data` does not have of its reference computation;
`data/padded_resnet50_256.npz` the reference's outputs for an image smaller than the network's input.
"""

import dataclasses
import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from detection_core.builders.detector import build_detector
from detection_core.config.check import check_pipeline_config
from detection_core.config.load import parse_pipeline_config
from detection_core.detectors.base import REGULARIZATION_LOSS
from detection_core.families.ssd.checkpoint_names import object_paths
from detection_core.families.ssd.model import CLASSIFICATION_LOSS, LOCALIZATION_LOSS, SsdModel
from detection_core.parts.anchor_criterion import AnchorPredictions
from detection_core.protos import model_pb2
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from detection_core.structures import Detections, Images
from tests.support import golden_networks
from tests.support.updates import losses_of_updates

ZOO = tuple(sorted(path.stem for path in (golden_networks.DATA / "zoo").glob("ssd_*.npz")))
ROUNDINGS = 10
"""How many times the effect of rounding the input once more two processors may differ by."""
full_size = [pytest.mark.zoo, pytest.mark.slow]


@functools.cache
def _arrays(name: str) -> dict[str, np.ndarray]:
    """What the reference computed."""
    return {
        **golden_networks.load_golden(name).arrays,
        **dict(np.load(golden_networks.DATA / "zoo" / f"{name}.npz")),
    }


def _config(name: str) -> TrainEvalPipelineConfig:
    return parse_pipeline_config(json.loads(_arrays(name)["facts"].tobytes())["config"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outputs:
    """Everything that one detector gave for the golden input, in this order."""

    name: str
    golden: golden_networks.Golden
    model: SsdModel
    predictions: AnchorPredictions
    detections: Detections
    train_predictions: AnchorPredictions
    losses: dict[str, tf.Tensor]


@pytest.fixture(scope="module", params=ZOO)
def outputs(request: pytest.FixtureRequest) -> Outputs:
    golden, model = golden_networks.load_golden(request.param), golden_networks.build_golden(request.param)
    predictions = model.predict(golden.images, training=False)
    train_predictions = model.predict(golden.images, training=True)
    return Outputs(
        name=request.param, golden=golden, model=model, predictions=predictions,
        detections=model.suppress(predictions, golden.images.true_sizes)[0],
        train_predictions=train_predictions, losses=model.compare(train_predictions, golden.truth),
    )  # fmt: skip


def _near(found: tf.Tensor, wanted: np.ndarray, what: str, rtol: float, atol: float) -> None:
    difference = np.abs(golden_networks.sample(found) - wanted)
    print(f"largest difference of {what}: {difference.max():.2e}")
    np.testing.assert_allclose(golden_networks.sample(found), wanted, rtol=rtol, atol=atol, err_msg=what)


def test_all_seven_configurations_pass_the_checks() -> None:
    assert len(ZOO) == 7
    for name in ZOO:
        config = _config(name)
        check_pipeline_config(config, name)
        assert config.model == golden_networks.load_golden(name).message


def test_an_image_that_does_not_fill_the_input() -> None:
    """Its detections are relative to itself, and none lies in the padding."""
    wanted = np.load(golden_networks.DATA / "padded_resnet50_256.npz")
    message = model_pb2.DetectionModel()
    message.CopyFrom(golden_networks.load_golden("ssd_resnet50_v1_fpn_640x640").message)
    resizer = message.ssd.image_resizer.keep_aspect_ratio_resizer
    resizer.min_dimension = resizer.max_dimension = 256
    resizer.pad_to_max_dimension = True
    model, true_sizes = golden_networks.build_filled(message), tf.constant(wanted["true_size"])
    pixels = np.random.RandomState(0).standard_normal((1, 256, 256, 3)).astype(np.float32)
    predictions = model.predict(Images(pixels, true_sizes, true_sizes, tf.constant([""])), training=False)
    found, raw = model.suppress(predictions, true_sizes)[0], model.raw_detections(predictions)
    for values, name in (
        (predictions.box_codes, "predict_box_encodings"),
        (predictions.class_logits, "predict_class_predictions_with_background"),
        (raw.boxes, "postprocess_raw_detection_boxes"),
        (raw.scores, "postprocess_raw_detection_scores"),
        (found.scores[0], "postprocess_detection_scores"),
    ):
        _near(values, wanted[name].reshape(-1), name, **golden_networks.TOLERANCE)
    assert found.count.numpy() == wanted["postprocess_num_detections"]
    same = np.isclose(
        found.boxes[0], wanted["postprocess_detection_boxes"][0], **golden_networks.TOLERANCE
    ).all(axis=1)
    same &= found.classes[0].numpy() == wanted["postprocess_detection_classes"][0]
    assert same.mean() > 0.95


class TestFullSize:
    pytestmark = full_size

    def test_variables(self, outputs: Outputs) -> None:
        found = {path: list(variable.shape) for path, variable in object_paths(outputs.model.network).items()}
        assert found == outputs.golden.facts["variables"]
        network, counts = outputs.model.network, outputs.golden.facts["parameters"]
        assert sum(int(np.prod(v.shape)) for v in network.trainable_variables) == counts["trainable"]
        assert sum(int(np.prod(v.shape)) for v in network.non_trainable_variables) == counts["non_trainable"]

    def test_forward_pass_and_detections(self, outputs: Outputs) -> None:
        arrays = _arrays(outputs.name)
        golden_networks.assert_outputs(outputs.golden, arrays, outputs.model, outputs.predictions)
        golden_networks.assert_same_detections(arrays, outputs.detections)

    def test_training_losses(self, outputs: Outputs) -> None:
        facts, losses = outputs.golden.facts, outputs.losses
        found = golden_networks.sample(outputs.train_predictions.box_codes)
        difference = np.abs(found - _arrays(outputs.name)["train_predict/box_encodings"])
        # Return the box codes in training of pixels changed by a unit in the last place.
        images = outputs.golden.images
        rounded = images._replace(pixels=tf.constant(images.pixels) * (1 + 2**-23))
        rounding = np.abs(
            found - golden_networks.sample(golden_networks.train_predict(outputs.model, rounded).box_codes)
        )
        # Batch statistics of a few pixels amplify rounding, a hundred layers of random weights do so a
        # hundred times, and each kind of processor rounds its sums in another order.
        for measure in (np.max, lambda values: np.sqrt(np.mean(values**2))):
            print(f"box codes in training: {measure(difference):.2e}, by rounding {measure(rounding):.2e}")
            assert measure(difference) <= golden_networks.TOLERANCE["atol"] + ROUNDINGS * measure(rounding)
        for name in (LOCALIZATION_LOSS, CLASSIFICATION_LOSS):
            print(f"{name}: {float(losses[name]) / facts['losses'][name] - 1.0:+.2e} of the reference's")
            np.testing.assert_allclose(losses[name], facts["losses"][name], rtol=1e-2)
        np.testing.assert_allclose(losses[REGULARIZATION_LOSS], facts["regularization_loss"], rtol=1e-5)

    def test_moving_statistics_after_one_training_forward(self, outputs: Outputs) -> None:
        variables = object_paths(outputs.model.network)
        after = {k.removeprefix("bn_after/"): v for k, v in _arrays(outputs.name).items() if "bn_after/" in k}
        assert len(after) == 4
        for path, wanted in after.items():
            _near(variables[path], wanted, path, **golden_networks.TOLERANCE)

    @pytest.mark.parametrize("name", ZOO)
    def test_updates_on_one_batch_lower_its_loss(self, name: str) -> None:
        golden, config = golden_networks.load_golden(name), _config(name)
        model = build_detector(config.model)
        # The configurations' rates are for large batches; a rate goes with the size of the batch.
        rate = config.train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate
        share = golden.facts["input_shape"][0] / config.train_config.batch_size
        rate.learning_rate_base *= share
        rate.warmup_learning_rate *= share
        # A ResNet of random weights has gradients (1e5 for 152 layers) that no update is small enough for.
        held = ("backbone_",) if "resnet" in name else ()
        losses = losses_of_updates(model, config.train_config.optimizer, golden, freeze_variables=held)
        assert np.isfinite(losses).all()
        assert losses[2] < losses[0]
