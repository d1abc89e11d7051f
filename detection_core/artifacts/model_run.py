"""The model run artifact: reports, logs and checkpoints of a training.

The folder holds the config as run, the last checkpoint, TensorBoard's logs, history.jsonl and
train_report.json. If needed, it also holds validation.jsonl, left_out.jsonl, skipped_updates.jsonl and
fine_tune_checkpoint.txt.
"""

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile, JsonLines

CHECKPOINTS, LOGS = "checkpoint", "logs"
"""Folders of the last checkpoint and of TensorBoard's logs."""

RESTORED_TABLE = "fine_tune_checkpoint.txt"
"""Lists which variables a restored checkpoint set, as readable text."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitReport:
    """Fields common to the reports of all trainings.

    Attributes:
        steps: total number of updates.
        start_step: updates already done in the resumed checkpoint.
        seconds: time in the training loop of this process.
        steps_per_second: speed at the end; 0 if unknown.
        loss: total loss of the last update; NaN if unknown.
        losses: the parts of that loss.
        learning_rate: learning rate of the last update.
        stopped_early: whether training stopped because validation no longer improved.
        best_step: step with the highest validation score; 0 without validation.
        best_score: that score; None without validation.
        skipped_updates: updates skipped because the loss or a gradient was not finite; see
            `skipped_updates.jsonl`.
        gradient_accumulation_steps: number of parts that each batch was split into.
        fingerprint: name of the folder of unfinished work.
        code_versions: versions of the training code; several if another version resumed the work.
        peak_memory_bytes: the process's peak memory; 0 if unknown.
        peak_device_memory_bytes: peak memory of tensors on one GPU; 0 without one.
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
    """Report of a training.

    Attributes:
        parameters: trainable parameters of the model.
        started_from: `random weights`, or the detector or checkpoint with the initial weights.
        restored: for a public checkpoint, the number of variables restored, skipped for their shape, missing
            and unused. The model run's table names them.
        weights: the weights written, `last` or `moving average`; prefixed `best` if taken at `best_step`.
        left_out: training records skipped because they do not decode; see `left_out.jsonl`.
        precision: final compute dtype of the layers: `float32`, `bfloat16` or `float16`.
        class_weights: weight of each class in the class loss, by name; empty: 1 for all.
    """

    parameters: int = 0
    started_from: str = ""
    restored: Mapping[str, int] = dataclasses.field(default_factory=dict)
    weights: str = "last"
    left_out: int = 0
    precision: str = "float32"
    class_weights: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationReport(FitReport):
    """Report of a quantization-aware training.

    Attributes:
        quantized_steps: updates with fake quantization; the others only observed ranges.
        coverage: fraction of the network's weights that are quantized.
        not_quantized: layers of the network that stay in float.
        range_warnings: a sentence per range that clips much of the outputs or is mostly unused.
    """

    quantized_steps: int
    coverage: float = 0.0
    not_quantized: list[str] = dataclasses.field(default_factory=list)
    range_warnings: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HistoryLine:
    """Progress of a training at one step.

    Attributes:
        step: updates applied.
        steps: total number of updates.
        loss: total loss.
        losses: its parts by the Object Detection API's names.
        learning_rate: learning rate of the update.
        steps_per_second: speed.
        time: seconds since 1970.
        images_per_second: speed; None if unknown.
        data_wait: fraction of the time since the previous line spent waiting for batches.
        memory_bytes: memory of the process.
        device_memory_bytes: memory of tensors on the fullest GPU; 0 without one.
        skipped_updates: updates skipped so far because a value was not finite.
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
    """Result of a validation during training.

    Attributes:
        step: updates applied.
        score: score for choosing the best weights; None if one of its metrics has no value.
        metrics: name to value; None if not measured.
        seconds: duration.
        time: seconds since 1970.
    """

    step: int
    score: float | None = None
    metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    time: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A training record skipped because it does not decode.

    Attributes:
        path: path of its file.
        index: index of the record in the file.
        image: the image's name in the record.
        reason: why it does not decode.
        digest: hash of its bytes, by which readers identify it.
    """

    path: str
    index: int
    image: str
    reason: str
    digest: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkippedBatch:
    """An update skipped because its loss or a gradient was not finite.

    Attributes:
        step: number of updates before it.
        losses: name to value; None if not finite.
        learning_rate: learning rate of the skipped update.
        images: image names in the batch's records.
        folder: subfolder of the unfinished work that holds the records; "" if they are not kept.
    """

    step: int
    losses: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    learning_rate: float | None = None
    images: list[str] = dataclasses.field(default_factory=list)
    folder: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchParts:
    """Number of parts that a batch is split into to fit the memory.

    Attributes:
        gradient_accumulation_steps: number of parts.
        reason: what happened with fewer parts.
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
