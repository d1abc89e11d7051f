"""The model run artifact: reports, logs and checkpoints of a training.

A folder with the config as run, the last checkpoint, TensorBoard's logs, history.jsonl and train_report.json;
where there was something to tell, also validation.jsonl, left_out.jsonl, skipped_updates.jsonl and
fine_tune_checkpoint.txt.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile, JsonLines

CHECKPOINTS, LOGS = "checkpoint", "logs"
"""Folders of the last checkpoint and of TensorBoard's logs."""

RESTORED_TABLE = "fine_tune_checkpoint.txt"
"""Lists what came of each variable when a checkpoint was restored, for people."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitReport:
    """What the report of any training says.

    Attributes:
        steps: updates in all.
        start_step: updates that a resumed checkpoint already had.
        seconds: time in the training loop of this process.
        steps_per_second: speed at the end; 0 where it is not known.
        loss: total loss of the last update; NaN where it is not known.
        losses: its parts.
        learning_rate: rate of the last update.
        stopped_early: training ended before its last step, as validation had shown no gain for long enough.
        best_step: step of the highest score of all validations; 0 where there was none.
        best_score: that score; None where there is none.
        skipped_updates: updates that were left out because their loss or a gradient is not finite;
            `skipped_updates.jsonl` beside the report tells of them.
        gradient_accumulation_steps: in how many parts each update's batch was computed.
        fingerprint: name of the folder of unfinished work.
        code_versions: the code that trained; several where unfinished work of other code was gone on with.
        peak_memory_bytes: the most that the process ever held; 0 where it is not known.
        peak_device_memory_bytes: the most that tensors took on one GPU; 0 without one.
    """

    steps: int
    start_step: int = 0
    seconds: float = 0.0
    steps_per_second: float = 0.0
    loss: float = float("nan")
    losses: Mapping[str, float] = dataclasses.field(default_factory=dict)
    learning_rate: float = float("nan")
    stopped_early: bool = False
    best_step: int = 0
    best_score: float | None = None
    skipped_updates: int = 0
    gradient_accumulation_steps: int = 1
    fingerprint: str = ""
    code_versions: list[str] = dataclasses.field(default_factory=list)
    peak_memory_bytes: int = 0
    peak_device_memory_bytes: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainReport(FitReport):
    """How a training went.

    Attributes:
        parameters: trainable parameters of the model.
        started_from: `random weights`, or the detector or checkpoint that gave the first weights.
        restored: of a checkpoint of the field, how many variables were restored, skipped for their shape and
            missing, and how many of the checkpoint were unused; the model run's table names them.
        weights: which weights were written, `last` or `moving average`; `best` before it where they are those
            of `best_step`.
        left_out: training records that were left out because they do not decode; `left_out.jsonl` beside
            the report names them.
        precision: what the network's layers computed in at the end: `float32`, `bfloat16` or `float16`.
    """

    parameters: int = 0
    started_from: str = ""
    restored: Mapping[str, int] = dataclasses.field(default_factory=dict)
    weights: str = "last"
    left_out: int = 0
    precision: str = "float32"


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationReport(FitReport):
    """How a quantization-aware training went.

    Attributes:
        quantized_steps: of the updates, those with fake quantization; the rest only observed ranges.
        coverage: fraction of the network's weights that are quantized.
        not_quantized: layers of the network that stay in float.
        range_warnings: ranges that cut off or leave unused much of what the layers give, a sentence each.
    """

    quantized_steps: int
    coverage: float = 0.0
    not_quantized: list[str] = dataclasses.field(default_factory=list)
    range_warnings: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HistoryLine:
    """The progress of a training at one time.

    Attributes:
        step: updates applied.
        steps: updates in all.
        loss: total loss.
        losses: its parts, under the Object Detection API's names.
        learning_rate: of the update.
        steps_per_second: speed.
        time: seconds since 1970.
        images_per_second: speed; None where it is not known.
        data_wait: fraction of the time since the line before in which updates waited for their batches.
        memory_bytes: what the process held.
        device_memory_bytes: what tensors took on the fullest GPU; 0 without one.
        skipped_updates: updates that were left out so far because something in them is not finite.
    """

    step: int
    steps: int = 0
    loss: float
    losses: Mapping[str, float] = dataclasses.field(default_factory=dict)
    learning_rate: float | None = None
    steps_per_second: float | None = None
    time: float = 0.0
    images_per_second: float | None = None
    data_wait: float | None = None
    memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    skipped_updates: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationLine:
    """What a validation found while training.

    Attributes:
        step: updates applied.
        score: by which weights are compared; None where a metric of it has no value.
        metrics: name to value; None where nothing can be said.
        seconds: time that it took.
        time: seconds since 1970.
    """

    step: int
    score: float | None = None
    metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    time: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A training record that is left out, because it does not decode.

    Attributes:
        path: of its file.
        index: of the record in it.
        image: what the record calls its image.
        reason: why it does not decode.
        digest: of its bytes, by which readers know it.
    """

    path: str
    index: int
    image: str
    reason: str
    digest: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkippedBatch:
    """An update that was left out, because its loss or a gradient is not finite.

    Attributes:
        step: updates before it.
        losses: name to value; None where it is not finite.
        learning_rate: that it would have been made with.
        images: what the records of its batch call their images.
        folder: that the records are in, of the folder of unfinished work; "" where they are not kept.
    """

    step: int
    losses: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    learning_rate: float | None = None
    images: list[str] = dataclasses.field(default_factory=list)
    folder: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchParts:
    """In how many parts a batch is computed, so that it fits the memory.

    Attributes:
        gradient_accumulation_steps: the parts.
        reason: what was found with fewer.
    """

    gradient_accumulation_steps: int
    reason: str = ""


TRAIN_REPORT = JsonFile(
    name="train_report.json",
    content=TrainReport,
    writer="Trainer",
    remedy="train again",
    indent=2,
    allow_nan=True,
)
QUANTIZATION_REPORT = JsonFile(
    name=TRAIN_REPORT.name,
    content=QuantizationReport,
    writer="QuantizationRewriter",
    remedy="quantize the detector again",
    indent=2,
    allow_nan=True,
)
_LINE_REMEDY = "correct or remove this line, or train again in another folder"
HISTORY = JsonLines(name="history.jsonl", content=HistoryLine, writer="a training", remedy="train again")
VALIDATIONS = JsonLines(
    name="validation.jsonl", content=ValidationLine, writer="a training", remedy=_LINE_REMEDY
)
BATCH_PARTS = JsonFile(
    name="batch_parts.json",
    content=BatchParts,
    writer="a training",
    remedy="remove it; the next run finds it",
)
LEFT_OUT = JsonLines(name="left_out.jsonl", content=LeftOut, writer="a training", remedy="train again")
SKIPPED_BATCHES = JsonLines(
    name="skipped_updates.jsonl", content=SkippedBatch, writer="a training", remedy=_LINE_REMEDY
)
