"""What the checks of training, of sizes and of export ask of a family of detectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from detection_core.config.problems import Problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigFamily:
    """A family's answers; each takes the family's own message, such as `Ssd`.

    Attributes:
        keypoints: keypoints of an object that the detector is trained on; None: it is not trained on any.
        keypoints_field: field below the message that says so.
        named_extractors: feature extractors that TensorFlow 1 had, so that the names in its checkpoints are
            known.
        size_problems: (message, path, rows and columns of the network's input) to what needs more memory
            than there can be.
        tflite_problems: (message, path) to what a TensorFlow Lite file cannot hold.
        problems: (message, path) to what is wrong with the message, for a family from outside the package:
            those of the package have rules in `messages.table`.
    """

    keypoints: Callable[[Any], int | None] = lambda message: None
    keypoints_field: str = ""
    named_extractors: tuple[str, ...] = ()
    size_problems: Callable[[Any, str, tuple[int, int]], Iterable[Problem]] = lambda message, path, size: ()
    tflite_problems: Callable[[Any, str], Iterable[Problem]] = lambda message, path: ()
    problems: Callable[[Any, str], Iterable[Problem]] = lambda message, path: ()
