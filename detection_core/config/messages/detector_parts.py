"""Prediction heads and their layers, losses, suppression and calibration of scores."""

import math
import re
from collections.abc import Iterator, Mapping

from detection_core.allowed_values import (
    BOXES,
    CHANNELS,
    FRACTION,
    KERNEL,
    LAYERS,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_FRACTION,
    Range,
)
from detection_core.config.messages.registered import registered_problems
from detection_core.config.suggestions import did_you_mean
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.box_predictor_pb2 import WeightSharedConvolutionalBoxPredictor
from detection_core.protos.calibration_pb2 import ClassIdFunctionApproximations, XYPairs
from detection_core.protos.hyperparams_pb2 import Initializer
from detection_core.protos.losses_pb2 import ClassificationLoss, LocalizationLoss, Loss
from detection_core.protos.post_processing_pb2 import BatchNonMaxSuppression


def _weight_shared(message: WeightSharedConvolutionalBoxPredictor, path: str) -> Iterator[Problem]:
    if message.num_layers_before_predictor > 0 and message.depth <= 0:
        text = (
            f"expected a positive number of channels for the {message.num_layers_before_predictor} layers"
            f" before the predictor, found {message.depth}; set depth"
        )
        yield Problem(path=f"{path}.depth", message=text)


_LAYERS = {"kernel_size": KERNEL, "box_code_size": POSITIVE, "num_layers_before_predictor": LAYERS}


_CLASSES = (
    "Constant",
    "GlorotNormal",
    "GlorotUniform",
    "HeNormal",
    "HeUniform",
    "LecunNormal",
    "LecunUniform",
    "Ones",
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
    "Zeros",
)
_SNAKE = tuple(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in _CLASSES)
_SCALED = tuple(name for name in _SNAKE if name.startswith(("glorot", "he_", "lecun")))
_SECOND = tuple(f"{name}V2" for name in (*_CLASSES, *_SCALED))

INITIALIZER_NAMES = frozenset((*_CLASSES, *_SNAKE, *_SECOND, "normal", "uniform", "one", "zero"))
"""Names of tf_keras initializers for the kernel of a convolution, which Identity cannot fill."""

_SHOWN = 60


def _initializer(message: Initializer, path: str) -> Iterator[Problem]:
    if message.WhichOneof("initializer_oneof") != "keras_initializer_by_name":
        return
    name = message.keras_initializer_by_name
    if name not in INITIALIZER_NAMES:
        hint = did_you_mean(name[:_SHOWN], sorted(INITIALIZER_NAMES), "correct the name")
        text = (
            "expected the name of a tf_keras initializer of convolutions, such as glorot_uniform or"
            f" he_normal, found {name[:_SHOWN]!r}; {hint}"
        )
        yield Problem(path=f"{path}.keras_initializer_by_name", message=text)


_ANCHORWISE = {"anchorwise_output": "losses are always kept one for each anchor"}
_MINING = "only expected_loss_weights reads it, which is refused"


def _loss(loss: Loss, path: str) -> Iterator[Problem]:
    if loss.HasField("hard_example_miner") and loss.classification_loss.HasField("weighted_sigmoid_focal"):
        text = "expected none beside weighted_sigmoid_focal, which weighs examples itself; remove one"
        yield Problem(path=f"{path}.hard_example_miner", message=text)
    if loss.HasField("random_example_sampler") and loss.HasField("hard_example_miner"):
        text = "expected hard_example_miner or random_example_sampler, found both; remove one"
        yield Problem(path=f"{path}.random_example_sampler", message=text)


def _classification(message: ClassificationLoss, path: str) -> Iterator[Problem]:
    if message.HasField("registered"):
        yield from registered_problems("classification_loss", message.registered, f"{path}.registered")


def _localization(message: LocalizationLoss, path: str) -> Iterator[Problem]:
    if message.HasField("registered"):
        yield from registered_problems("localization_loss", message.registered, f"{path}.registered")


def _suppression(nms: BatchNonMaxSuppression, path: str) -> Iterator[Problem]:
    if nms.max_detections_per_class > nms.max_total_detections:
        total, found = nms.max_total_detections, nms.max_detections_per_class
        text = f"expected at most max_total_detections, which is {total:,}, found {found:,}"
        yield Problem(path=f"{path}.max_detections_per_class", message=text)
    for name in ("use_class_agnostic_nms", "soft_nms_sigma"):
        if nms.use_combined_nms and getattr(nms, name):
            yield Problem(path=f"{path}.{name}", message="expected none beside use_combined_nms; remove one")
    if nms.use_class_agnostic_nms and nms.max_classes_per_detection > 1:
        text = (
            "expected 1 beside use_class_agnostic_nms, which gives an anchor one class only, found"
            f" {nms.max_classes_per_detection:,}"
        )
        yield Problem(path=f"{path}.max_classes_per_detection", message=text)


def _knots(message: XYPairs, path: str) -> Iterator[Problem]:
    if not message.x_y_pair:
        text = "expected at least one x_y_pair, found none; add the points of the calibration curve"
        yield Problem(path=path, message=text)


def _per_class(message: ClassIdFunctionApproximations, path: str) -> Iterator[Problem]:
    """Check the values of a map, which the walk over messages does not reach."""
    for key, pairs in message.class_id_xy_pairs_map.items():
        where = f"{path}.class_id_xy_pairs_map[{key}]"
        yield from _knots(pairs, where)
        if key < 0:
            yield Problem(path=where, message=f"expected a class of 0 or more, found {key}; correct it")


_KERNEL = "it chose a kernel for an accelerator; the result is the same with and without"
_SIGMOID = (
    "the Object Detection API never applied it, so its meaning is open; use {}, with points of the sigmoid"
)


CLIP_RANGE = "box_encodings_clip_range"
"""A field of the prediction head; a TensorFlow Lite file does not clip codes."""
OPERATION = "TFLite_Detection_PostProcess"
"""The custom operator that decodes boxes and applies non-maximum suppression."""


RULES: Mapping[str, Rules] = {
    "BoxPredictor": Rules(
        oneofs=("box_predictor_oneof",),
        refused={
            "rfcn_box_predictor": "R-FCN exists in TensorFlow 1 only; use mask_rcnn_box_predictor for "
            "faster_rcnn, weight_shared_convolutional_box_predictor for ssd",
        },
    ),
    "ConvolutionalBoxPredictor": Rules(
        ranges={**_LAYERS, "min_depth": CHANNELS, "max_depth": CHANNELS},
        refused={
            "apply_sigmoid_to_scores": "scores are made from logits in one place; set "
            "post_processing.score_converter: SIGMOID"
        },
    ),
    "WeightSharedConvolutionalBoxPredictor": Rules(
        ranges={**_LAYERS, "depth": CHANNELS}, check=_weight_shared
    ),
    "Hyperparams": Rules(
        without_effect={
            "regularize_depthwise": "the regularizer alone says which kernels are penalised",
            "op": "whether layers are convolutions or dense follows from their place",
        },
        refused={"group_norm": "no detector here is made with it; use batch_norm"},
    ),
    "L1Regularizer": Rules(ranges={"weight": NOT_NEGATIVE}),
    "L2Regularizer": Rules(ranges={"weight": NOT_NEGATIVE}),
    "Initializer": Rules(check=_initializer),
    "TruncatedNormalInitializer": Rules(ranges={"stddev": NOT_NEGATIVE}),
    "RandomNormalInitializer": Rules(ranges={"stddev": NOT_NEGATIVE}),
    "BatchNorm": Rules(ranges={"decay": FRACTION, "epsilon": POSITIVE}),
    "Loss": Rules(
        ranges={"classification_weight": NOT_NEGATIVE, "localization_weight": NOT_NEGATIVE},
        parts=("localization_loss", "classification_loss"),
        check=_loss,
        without_effect={"min_num_negative_samples": _MINING, "desired_negative_sampling_ratio": _MINING},
        refused={
            "expected_loss_weights": "the schema names two ways to weigh negatives, but the Object Detection "
            "API's published code has neither; use weighted_sigmoid_focal or hard_example_miner",
        },
    ),
    "Loss.EqualizationLoss": Rules(
        without_effect={"exclude_prefixes": "it goes with a weight, which is refused"},
        refused={
            "weight": "the Object Detection API's published code reads it and applies nothing, so its "
            "meaning is open; remove it"
        },
    ),
    "RandomExampleSampler": Rules(ranges={"positive_sample_fraction": POSITIVE_FRACTION}),
    "ClassificationLoss": Rules(oneofs=("classification_loss",), check=_classification),
    "BootstrappedSigmoidClassificationLoss": Rules(without_effect=_ANCHORWISE),
    "SigmoidFocalClassificationLoss": Rules(without_effect=_ANCHORWISE),
    "WeightedSigmoidClassificationLoss": Rules(without_effect=_ANCHORWISE),
    "WeightedSoftmaxClassificationLoss": Rules(without_effect=_ANCHORWISE),
    "WeightedSoftmaxClassificationAgainstLogitsLoss": Rules(without_effect=_ANCHORWISE),
    "LocalizationLoss": Rules(oneofs=("localization_loss",), check=_localization),
    "WeightedL2LocalizationLoss": Rules(without_effect=_ANCHORWISE),
    "WeightedSmoothL1LocalizationLoss": Rules(ranges={"delta": POSITIVE}, without_effect=_ANCHORWISE),
    "BatchNonMaxSuppression": Rules(
        ranges={
            "max_detections_per_class": BOXES,
            "max_total_detections": BOXES,
            "max_classes_per_detection": BOXES,
            "score_threshold": NOT_NEGATIVE,
            "soft_nms_sigma": NOT_NEGATIVE,
        },
        check=_suppression,
        without_effect={"use_static_shapes": _KERNEL, "use_partitioned_nms": _KERNEL, "use_cpu_nms": _KERNEL},
    ),
    "CalibrationConfig": Rules(
        oneofs=("calibrator",),
        refused={
            "sigmoid_calibration": _SIGMOID.format("function_approximation"),
            "class_id_sigmoid_calibrations": _SIGMOID.format("class_id_function_approximations"),
        },
    ),
    "FunctionApproximation": Rules(parts=("x_y_pairs",)),
    "ClassIdFunctionApproximations": Rules(check=_per_class),
    "TemperatureScalingCalibration": Rules(
        ranges={
            "scaler": Range(0, math.inf, "a number above 0, of which 1 leaves logits alone", open_low=True)
        }
    ),
    "XYPairs": Rules(
        check=_knots, without_effect={"training_data_type": "it only tells where the points came from"}
    ),
}
