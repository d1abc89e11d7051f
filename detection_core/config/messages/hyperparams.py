"""Settings of a group of convolutions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from detection_core.config.problems import Problem, walk_messages
from detection_core.config.suggestions import near_names
from detection_core.protos.hyperparams_pb2 import Initializer
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

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
"""Names of tf_keras initializers that can fill the kernel of a convolution; Identity cannot."""

_SHOWN = 60


def check_initializers(config: TrainEvalPipelineConfig) -> Iterator[Problem]:
    """Find initializers that cannot be made, wherever they stand."""
    for path, message in walk_messages(config):
        if isinstance(message, Initializer):
            yield from initializer_problems(message, path)


def initializer_problems(message: Initializer, path: str) -> Iterator[Problem]:
    """Find a name that stands for no initializer of a convolution's kernel.

    Args:
        message: the initializer.
        path: its field path.
    """
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
