"""DetectionModel messages -> detectors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detection_core.config.check import find_problems
from detection_core.config.messages.detectors import missing_classes_problems
from detection_core.config.messages.table import RULES
from detection_core.config.problems import raise_first
from detection_core.config.refusals import find_refused
from detection_core.detectors.family import FAMILIES, family_name, find_family, model_message
from detection_core.errors import ConfigError, Problem
from detection_core.protos.model_pb2 import DetectionModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig

if TYPE_CHECKING:
    from detection_core.detectors.base import Detector


def build_detector(message: DetectionModel, *, seed: int | None = 0) -> Detector:
    """Build the detector that a config describes.

    Args:
        message: the `model` of a pipeline.config.
        seed: of the first weights, which depend on it and on their names only. None: zeros, made faster,
            for a detector that is only looked at.

    Raises:
        ConfigError: when the message names something that does not exist here or contradicts itself.
    """
    family = find_family(message)
    if family is None:
        reason = RULES["DetectionModel"].refused.get(str(message.WhichOneof("model")), "set one")
        raise ConfigError(
            f"expected {' or '.join(FAMILIES)}, found {family_name(message) or 'none'}: {reason}",
            where="model",
        )
    raise_first(_problems(message))
    body, where = model_message(message)
    return family.build(body, where, seed)


def _problems(message: DetectionModel) -> Iterator[Problem]:
    """Find all problems of the model config, so that the builders only translate."""
    config = TrainEvalPipelineConfig(model=message)
    found = itertools.chain(find_refused(config), missing_classes_problems(message), find_problems(config))
    return (problem for problem in found if problem.path.startswith("model"))
