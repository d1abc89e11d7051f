"""Settings of a group of convolutions: initializer, regularizer, normalisation, activation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from detection_core.allowed_values import FRACTION, NOT_NEGATIVE, POSITIVE
from detection_core.config.suggestions import near_names
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.hyperparams_pb2 import Initializer

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
    """Find a name that is no initializer of a convolution's kernel."""
    if message.WhichOneof("initializer_oneof") != "keras_initializer_by_name":
        return
    name = message.keras_initializer_by_name
    if name not in INITIALIZER_NAMES:
        near = near_names(name[:_SHOWN], sorted(INITIALIZER_NAMES), limit=1)
        hint = f"did you mean {near[0]}?" if near else "correct the name"
        text = (
            "expected the name of a tf_keras initializer of convolutions, such as glorot_uniform or"
            f" he_normal, found {name[:_SHOWN]!r}; {hint}"
        )
        yield Problem(path=f"{path}.keras_initializer_by_name", message=text)


RULES: Mapping[str, Rules] = {
    "Hyperparams": Rules(
        "builders.heads",
        without_effect={
            "regularize_depthwise": "the regularizer alone says which kernels are penalised",
            "op": "whether layers are convolutions or dense follows from their place",
        },
        refused={"group_norm": "no detector here is made with it; use batch_norm"},
    ),
    "Regularizer": Rules("builders.heads"),
    "L1Regularizer": Rules("builders.heads", ranges={"weight": NOT_NEGATIVE}),
    "L2Regularizer": Rules("builders.heads", ranges={"weight": NOT_NEGATIVE}),
    "Initializer": Rules("builders.heads", check=_initializer),
    "TruncatedNormalInitializer": Rules("builders.heads", ranges={"stddev": NOT_NEGATIVE}),
    "VarianceScalingInitializer": Rules("builders.heads"),
    "RandomNormalInitializer": Rules("builders.heads", ranges={"stddev": NOT_NEGATIVE}),
    "BatchNorm": Rules("builders.heads", ranges={"decay": FRACTION, "epsilon": POSITIVE}),
}
