"""Prediction heads and their layers, losses, suppression and calibration of scores."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core.config.messages.registered import PartKind, registered_problems
from detection_core.config.suggestions import did_you_mean
from detection_core.detectors.rules import Check
from detection_core.errors import Problem
from detection_core.protos.calibration_pb2 import ClassIdFunctionApproximations, XYPairs
from detection_core.protos.hyperparams_pb2 import Initializer

_CLASSES = (
    "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "LecunNormal", "LecunUniform",
    "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling",
    "Zeros",
)  # fmt: skip
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


def _registered(kind: PartKind, message: Any, path: str) -> Iterator[Problem]:
    if message.HasField("registered"):
        yield from registered_problems(kind, message.registered, f"{path}.registered")


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


CLIP_RANGE = "box_encodings_clip_range"
"""A field of the prediction head; a TensorFlow Lite file does not clip codes."""


CHECKS: Mapping[str, Check] = {
    "Initializer": _initializer,
    "ClassificationLoss": functools.partial(_registered, "classification_loss"),
    "LocalizationLoss": functools.partial(_registered, "localization_loss"),
    "ClassIdFunctionApproximations": _per_class,
    "XYPairs": _knots,
}
