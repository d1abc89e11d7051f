"""Contract of Evaluator."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from component_specs.annotations import BLESSING, EVALUATION, EXAMPLES, MODEL, Input, Output
from component_specs.codecs import JsonObject
from component_specs.example_gen import BEAM_ARGS, TILES, Tiles

Thresholds = Mapping[str, Mapping[str, float]]
"""Metric name to its bounds."""
THRESHOLDS = JsonObject(example='{"DetectionBoxes_Precision/mAP": {"lower_bound": 0.3}}', of_objects=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatorJob:
    """Evaluate a detector and decide whether it may be published."""

    examples: Annotated[str, Input(EXAMPLES)]
    model: Annotated[str, Input(MODEL)]
    evaluation: Annotated[str, Output(EVALUATION)]
    blessing: Annotated[str, Output(BLESSING)]
    baseline: Annotated[str, Input(MODEL, optional=True)] = ""
    split: str = "eval"
    thresholds: Annotated[Thresholds, THRESHOLDS] = dataclasses.field(default_factory=dict)
    slices: str = ""
    tiles: Annotated[Tiles, TILES] = dataclasses.field(default_factory=dict)
    pictures: int = -1
    write_detections: bool = False
    trust: bool = False
    distributed: bool = False
    beam_args: Annotated[tuple[str, ...], BEAM_ARGS] = ()
    code_version: str = ""
