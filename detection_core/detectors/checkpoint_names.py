"""How checkpoints of the field name the variables of a family's detectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import tensorflow as tf

FillableVariables = list[tuple[tf.Variable, list[str]]]
"""Variables of a detector, each with the names or object paths under which a checkpoint may have it."""

StoredNames = Callable[[Iterable[str]], Mapping[str, Collection[str]]]
"""Takes a checkpoint's names, and returns the names that stand there under another one, each with all that
could be it; a name that is given to another variable, and to none itself, comes with none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuneOptions:
    """What to take of a checkpoint to start from.

    Attributes:
        kind: "classification" for the backbone of a classifier, "detection" for the backbone and pyramid of
            a detector, "full" for its heads too.
        named: the checkpoint is a name-based one of TensorFlow 1.
        extractor: the extractor's `type` in the config, which the names follow.
        heads: of a name-based "detection" checkpoint take the heads too.
    """

    kind: str
    named: bool = False
    extractor: str = ""
    heads: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Naming:
    """The names in one format of checkpoint.

    Attributes:
        kinds: kind of checkpoint -> (detector, options) -> its variables and what they are called there.
        detector: any of these some names of a detector's checkpoint begin with.
        classifier: any of these some names of a classifier's checkpoint begin with.
        heads: any of these stands in the names of a detector's heads.
        model: what names of a model's variables begin with; () in formats where the ends of names
            distinguish other variables.
        stored_names: finds the names that a checkpoint has under others; None: each stands for itself.
    """

    kinds: Mapping[str, Callable[[Any, FineTuneOptions], FillableVariables]]
    detector: tuple[str, ...]
    classifier: tuple[str, ...]
    heads: tuple[str, ...]
    model: tuple[str, ...] = ()
    stored_names: StoredNames | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointNames:
    """The names in both formats.

    Attributes:
        object_based: those of TensorFlow 2: paths of objects, without the suffix of their attribute.
        name_based: those of TensorFlow 1: names of variables.
    """

    object_based: Naming
    name_based: Naming

    def naming(self, *, named: bool) -> Naming:
        """Return the names in checkpoints of TensorFlow 1, or in those of TensorFlow 2."""
        return self.name_based if named else self.object_based
