"""Contract of RunChecker."""

import dataclasses
from typing import Annotated

from component_specs.example_gen import DEFAULT_SPLITS, SPLITS, Splits

DEPLOYED = "deployed"
"""Value of `warm_start` that means the model at the push destination."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunCheckerJob:
    """Compute, at the start of a run, the values that decide which steps are cache hits.

    It has no artifacts: its output parameters are parameters of the other steps.

    Attributes:
        data_path: folder of the data set; this and the next three as in ExampleGen.
        data_format: format of the annotations, a key of
            `detection_core.datasets.readers.READERS`; `auto`: detected.
        splits: split name to ratio or to the location of its annotations.
        label_map: path of a label map; empty: made from the annotations.
        span: `latest`, a number or a date: the newest span to read, where the paths hold a span pattern; see
            `components.example_gen.sources`.
        window: number of spans up to that one, to train on.
        eval_window: number of spans for the other splits.
        span_ready_file: name of a file that marks a span's folder as complete; empty: all are complete.
        push_destination: folder that Pusher publishes to.
        request: fingerprint of the run's other inputs, such as its settings.
        thresholds: as in Evaluator, but as text, whose placeholders are filled before it is parsed
            as JSON. An input of the run, like the next two.
        train_steps: as in Trainer.
        learning_rate: as in Trainer.
        work_dir: durable folder for checkpoints of unfinished training.
        scheduled_time: RFC 3339 time of the schedule's slot; empty: unknown, which stops a run that
            needs it. It and the run id fill placeholders in `data_path`, `span`, `thresholds`,
            `push_destination` and `work_dir`, see `components.run_checker.placeholders`. Other steps get
            the filled texts from here.
        run_id: id of the run.
        warm_start: path of Trainer's starting detector, or `deployed` for the one at the push
            destination. This and the next one are hashed by content, and checked before any
            training.
        fine_tune_checkpoint: from Trainer's pipeline.config; published weights that it names are
            downloaded.
        weights_mirror: mirror of published weights: an address, a folder or a bucket; empty:
            DETFLOW_WEIGHTS_MIRROR, or the publishers.
        compared_spans: number of earlier spans that DataValidator compares the newest one with,
            by their statistics in `work_dir`.
    """

    data_path: str
    push_destination: str
    data_format: str = "auto"
    splits: Annotated[Splits, SPLITS] = dataclasses.field(default_factory=lambda: dict(DEFAULT_SPLITS))
    label_map: str = ""
    span: str = "latest"
    window: int = 1
    eval_window: int = 1
    span_ready_file: str = ""
    request: str = ""
    thresholds: str = "{}"
    train_steps: int = 0
    learning_rate: float = 0.0
    work_dir: str = ""
    scheduled_time: str = ""
    run_id: str = ""
    warm_start: str = ""
    fine_tune_checkpoint: str = ""
    weights_mirror: str = ""
    compared_spans: int = 30
