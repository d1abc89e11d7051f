"""Contract of RunChecker."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from component_specs.example_gen import DEFAULT_SPLITS, SPLITS, Splits

DEPLOYED = "deployed"
"""What `warm_start` says to start from the model at the push destination."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunCheckerJob:
    """Find out when a run begins what decides which of its steps the cache can answer.

    It has no artifact: what it finds are output parameters, which the other steps take as parameters.

    Attributes:
        data_path: folder of the data set; this and the next three as ExampleGen gets them.
        data_format: how the annotations are written, a key of
            `detection_core.datasets.readers.READERS`; `auto`: found by looking.
        splits: split name to ratio or to where its annotations are.
        label_map: path of a label map; empty: made from the annotations.
        span: `latest`, a number or a date: the newest span to read, where the paths hold a span pattern; see
            `components.example_gen.spans`.
        window: how many spans, up to that one, to train on.
        eval_window: how many of them the other splits are taken from.
        span_ready_file: name of a file that marks a span's folder as complete; empty: every span is.
        push_destination: where Pusher publishes.
        request: fingerprint of everything else that the run is asked to do, such as its settings.
        thresholds: as Evaluator gets them, but a text still, whose placeholders are filled before it is read
            as JSON. Part of what the run is asked to do, and so are the next two.
        train_steps: as Trainer gets it.
        learning_rate: as Trainer gets it.
        work_dir: durable folder for checkpoints of unfinished training.
        scheduled_time: RFC 3339 time that the run was scheduled for; empty: not known, which stops a run that
            needs it. Placeholders in `data_path`, `span`, `thresholds`, `push_destination` and `work_dir` are
            filled with it and with the next one, see `components.run_checker.placeholders`; other steps get
            these texts from here.
        run_id: of the run.
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
