"""Variable names of a family's detectors in existing checkpoint formats."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import tensorflow as tf

from detection_core.errors import ModelError
from detection_core.parts.layers.layer_names import LayerName

FillableVariables = list[tuple[tf.Variable, list[str]]]
"""Variables of a detector, each with its candidate names or object paths in a checkpoint."""


def rename_paths(paths: Mapping[str, tf.Variable], path_in: Callable[[str], str | None]) -> FillableVariables:
    """Return the variables of a checkpoint; `path_in` maps a detector's path to the one there, or to None."""
    found = ((variable, path_in(path)) for path, variable in paths.items())
    return [(variable, [path]) for variable, path in found if path is not None]


def below(*prefixes: str) -> Callable[[str], str | None]:
    """Return a `path_in` for a checkpoint that has only the paths with one of the prefixes, unchanged."""
    return lambda path: path if path.startswith(prefixes) else None


def top_level(names: Iterable[LayerName]) -> int:
    """Return the coarsest level that a pyramid takes from the backbone; 0 without a pyramid."""
    return max((name.indices[0] for name in names if name.part == "fpn_lateral"), default=0)


def pyramid_path(name: LayerName, top: int, fpn: str, coarse: str, padding: int = 0) -> str:
    """Return the path of a pyramid's layer; lists have the coarsest level first, coarse layers the finest.

    A convolution is in a list with its normalisation and activation, after explicit `padding`, if any.
    """
    above = name.indices[0] - top
    if name.part == "fpn_lateral":
        return f"{fpn}/residual_blocks/{-above - 1}/0" if above else f"{fpn}/top_layers/0"
    folder = f"{coarse}/{above - 1}" if name.part == "fpn_coarse" else f"{fpn}/conv_layers/{-above - 1}"
    return f"{folder}/{padding + name.norm}"


def rewritten_layer(name: str) -> ModelError:
    """Return the error for a layer without a name in checkpoints, as in a rewritten network."""
    return ModelError(
        f"expected a layer of a detector's network as it was built, found {name!r}; read the checkpoint"
        " before the network is rewritten",
        where=name,
    )


def unnamed_extractor(extractor: str, known: Iterable[str]) -> ModelError:
    """Return the error for an extractor without names in TensorFlow 1's checkpoints."""
    return ModelError(
        f"expected an extractor that TensorFlow 1 had ({', '.join(known)}), found {extractor}; use an"
        " object-based checkpoint of TensorFlow 2",
        where=extractor,
    )


StoredNames = Callable[[Iterable[str]], Mapping[str, Collection[str]]]
"""Takes a checkpoint's names, and returns name -> stored names that may match it, where these differ.

A stored name that belongs to another variable, and has no match itself, maps to none.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuneOptions:
    """The parts of an initial checkpoint to restore.

    Attributes:
        kind: "classification" for the backbone of a classifier, "detection" for the backbone and pyramid of a
            detector, "full" for its heads too.
        named: the checkpoint is a name-based one of TensorFlow 1.
        extractor: the extractor's `type` in the config, which determines the names.
        heads: also restore the heads from a name-based "detection" checkpoint.
    """

    kind: str
    named: bool = False
    extractor: str = ""
    heads: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Naming:
    """The names in one checkpoint format.

    Attributes:
        kinds: kind of checkpoint -> (detector, options) -> its variables with their names there.
        detector: prefixes of some names in a detector's checkpoint.
        classifier: prefixes of some names in a classifier's checkpoint.
        heads: substrings of the names of a detector's heads.
        model: prefixes of a model's variables; () in formats that distinguish other variables by suffix.
        stored_names: finds names that are stored differently; None: names are stored unchanged.
    """

    kinds: Mapping[str, Callable[[Any, FineTuneOptions], FillableVariables]]
    detector: tuple[str, ...]
    classifier: tuple[str, ...]
    heads: tuple[str, ...]
    model: tuple[str, ...] = ()
    stored_names: StoredNames | None = None


def object_kinds(paths_of: Callable[[Any], Mapping[str, tf.Variable]], *detection: str) -> Mapping[str, Any]:
    """Return the `Naming.kinds` of object-based checkpoints of detectors, "detection" by its prefixes."""
    return {
        "detection": lambda model, options: rename_paths(paths_of(model), below(*detection)),
        "full": lambda model, options: rename_paths(paths_of(model), str),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointNames:
    """Variable names of object-based checkpoints, without attributes' suffixes, and of name-based ones."""

    object_based: Naming
    name_based: Naming

    def naming(self, *, named: bool) -> Naming:
        """Return the names in checkpoints of TensorFlow 1, or of TensorFlow 2."""
        return self.name_based if named else self.object_based
