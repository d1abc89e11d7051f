"""Contract of RunChecker."""

from __future__ import annotations

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
            `components.example_gen.spans`.
        window: number of spans up to that one, to train on.
        eval_window: number of spans for the other splits.
        span_ready_file: name of a file that marks a span's folder as complete; empty: all are complete.
        push_destination: folder that Pusher publishes to.
        request: fingerprint of the run's other inputs, such as its settings.
        thresholds: as Evaluator gets them, but a text still, whose placeholders are filled before it is read
            as JSON. Part of what the run is asked to do, and so are the next two.
        train_steps: as in Trainer.
        learning_rate: as in Trainer.
        work_dir: durable folder for checkpoints of unfinished training.
        scheduled_time: RFC 3339 time that the run was scheduled for; empty: not known, which stops a run that
            needs it. Placeholders in `data_path`, `span`, `thresholds`, `push_destination` and `work_dir` are
            filled with it and with the next one, see `components.run_checker.placeholders`; other steps get
            these texts from here.
        run_id: id of the run.
        warm_start: path of the detector that Trainer starts from, or `deployed` for the one at the push
            destination; it and the next one count by what the files hold, and are looked at before anything
            is trained.
        fine_tune_checkpoint: of the pipeline.config that Trainer gets; published weights that it names are
            fetched.
        weights_mirror: what has copies of published weights: an address, a folder or a bucket; empty: what
            DETFLOW_WEIGHTS_MIRROR says, or the publishers.
        compared_spans: with how many spans before those that are read DataValidator compares the newest one,
            by the statistics that it keeps of them in `work_dir`.
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
