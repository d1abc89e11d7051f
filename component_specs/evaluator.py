"""Contract of Evaluator."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from component_specs.annotations import BLESSING, EVALUATION, EXAMPLES, MODEL, Input, Output
from component_specs.codecs import JsonList, JsonObject
from component_specs.example_gen import TILES, Tiles

Thresholds = Mapping[str, Mapping[str, float]]
"""Metric name to its bounds."""
THRESHOLDS = JsonObject(example='{"DetectionBoxes_Precision/mAP": {"lower_bound": 0.3}}', of_objects=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatorJob:
    """Evaluate a detector and decide whether it may be published.

    Attributes:
        examples: output of ExampleGen.
        model: detector to evaluate.
        baseline: detector for comparison.
        split: split to evaluate on.
        thresholds: metric name to {"lower_bound", "upper_bound", "min_change"}; `min_change` is relative to
            the baseline, if there is one.
        slices: `image_size`, to measure small, medium and large images separately, or a CSV file with the
            column `source_id`, whose other columns are more features of the images. "": none.
        tiles: tiles to detect in beside whole images, as in ExampleGen; `min_visibility` is not used.
        pictures: number of side-by-side pictures to draw; -1: eval_config.num_visualizations.
        write_detections: also write the detections to the evaluation, as `coco_results.json`.
        trust: also run detectors whose graphs have side effects, such as reading files.
        distributed: whether workers of Beam run the detector, each on some of the files of records.
        beam_args: Beam's pipeline options then; empty: a worker process per core of this machine.
        code_version: fingerprint of the code; part of the cache key.
        evaluation: folder to fill: metrics.json, curves.json, pictures/.
        blessing: folder to fill with `BLESSED` or `NOT_BLESSED`, and reasons.json.
    """

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
    beam_args: Annotated[tuple[str, ...], JsonList(example='["--runner=FlinkRunner"]')] = ()
    code_version: str = ""
