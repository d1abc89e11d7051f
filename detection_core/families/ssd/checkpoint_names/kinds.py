"""Variables that each kind of checkpoint fills, and their names there."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from detection_core.detectors.checkpoint_names import (
    CheckpointNames,
    FillableVariables,
    FineTuneOptions,
    Naming,
)
from detection_core.families.ssd.checkpoint_names.object_keys import CLASSIFICATION_PREFIXES, object_keys
from detection_core.families.ssd.checkpoint_names.scoped_names import (
    FAMILIES,
    FEATURE_EXTRACTOR,
    scoped_variables,
)
from detection_core.families.ssd.model import SsdModel
from detection_core.training.checkpoint_variables import VARIABLE_SUFFIX

EXTRACTOR_PATH = "model/_feature_extractor/"
PREDICTOR_PATH = "model/_box_predictor/"


def _of_objects(model: SsdModel, path_in: Callable[[str], str | None]) -> FillableVariables:
    """Return variables with candidate paths; `path_in` maps a detector's path to this checkpoint, or None."""
    found: dict[int, tuple[tf.Variable, list[str]]] = {}
    for key, variable in object_keys(model.network).items():
        path = path_in(key.removesuffix(VARIABLE_SUFFIX))
        if path is not None:
            found.setdefault(id(variable), (variable, []))[1].append(path)
    return list(found.values())


def _classification_path(path: str) -> str | None:
    """Return the path in a classifier's checkpoint of an object in a detector's backbone."""
    for prefix in CLASSIFICATION_PREFIXES:
        if path.startswith(f"model/{prefix}/"):
            return path.replace(f"model/{prefix}/", "feature_extractor/", 1)
    return None


def _extractor_path(path: str) -> str | None:
    return path if path.startswith(EXTRACTOR_PATH) else None


def _named_classification(model: SsdModel, options: FineTuneOptions) -> FillableVariables:
    found = scoped_variables(model.network, options.extractor)
    return [(v.variable, [v.name.removeprefix(FEATURE_EXTRACTOR)]) for v in found if v.backbone]


def _named_detection(model: SsdModel, options: FineTuneOptions) -> FillableVariables:
    found = scoped_variables(model.network, options.extractor)
    return [(v.variable, [v.name]) for v in found if options.heads or v.name.startswith(FEATURE_EXTRACTOR)]


SSD_NAMES = CheckpointNames(
    object_based=Naming(
        kinds={
            "classification": lambda model, options: _of_objects(model, _classification_path),
            "detection": lambda model, options: _of_objects(model, _extractor_path),
            "full": lambda model, options: _of_objects(model, lambda path: path),
        },
        detector=(EXTRACTOR_PATH,),
        classifier=("feature_extractor/",),
        heads=(PREDICTOR_PATH,),
        model=("model/", "feature_extractor/"),
    ),
    name_based=Naming(
        kinds={"classification": _named_classification, "detection": _named_detection},
        detector=(FEATURE_EXTRACTOR,),
        classifier=tuple(f"{family.scope}/" for family in FAMILIES.values()),
        heads=("Predictor",),
    ),
)


def checkpoint_names() -> CheckpointNames:
    """Return the names of SSD's variables in checkpoints."""
    return SSD_NAMES
