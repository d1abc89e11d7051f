"""The parity artifact: parity.json, each TensorFlow Lite file against the SavedModel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerNoise:
    """An operation of a file against the network that the file was made from.

    Attributes:
        layer: of the network.
        operation: of the file, such as `CONV_2D`.
        db: ratio of signal to noise in decibels, at most 100.
    """

    layer: str = ""
    operation: str = ""
    db: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkParity:
    """The network in a file against the one that it was made from, on the same inputs.

    Attributes:
        images: that both were run on.
        least_db: ratio of signal to noise that each head has to have.
        heads: raw head, such as `class_logits`, to its ratio of signal to noise in decibels, at most 100.
        unmatched: raw heads of the file, by their tensors' names, that the network does not have.
        layer: the first layer, in the order in which they run, that has less; "" where none has.
        operation: of that layer in the file, such as `CONV_2D`.
        layer_db: its ratio; None without one.
        layers: all that were compared, in the order in which they run.
    """

    images: int = 0
    least_db: float = 0.0
    heads: Mapping[str, float] = dataclasses.field(default_factory=dict)
    unmatched: list[str] = dataclasses.field(default_factory=list, metadata=OMIT_DEFAULT)
    layer: str = ""
    operation: str = ""
    layer_db: float | None = None
    layers: list[LayerNoise] = dataclasses.field(default_factory=list, metadata=OMIT_DEFAULT)

    @property
    def noisiest(self) -> LayerNoise | None:
        """The operation with the most noise; None where none was compared."""
        return min(self.layers, key=lambda layer: layer.db, default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxParity:
    """A file's detections against the SavedModel's, over the whole split.

    Attributes:
        detections: of the SavedModel, with a score that counts, that a file has which differs by rounding.
        undecided: further ones that the file does not have, as another of its boxes of like score suppressed
            them, or its list was full.
        matched: share of them that the file finds: of the same class, overlapping by half, with half the
            score.
        least_matched: bound on it.
        mean_iou: of those; None where there are none.
        mean_score_difference: absolute, of those; None where there are none.
        score_noise: 95 % of those differences are at most this; None where there are none.
    """

    detections: int = 0
    undecided: int = 0
    matched: float = 0.0
    least_matched: float = 0.0
    mean_iou: float | None = None
    mean_score_difference: float | None = None
    score_noise: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileReport:
    """One file against its SavedModel.

    Attributes:
        file: name.
        format: such as `float32` or `int8`.
        quantization: `none`, `aware` (trained so) or `post_training`.
        made_from: the network that it is of: `float`, or `quantization_aware`, whose weights were trained
            with quantization, whatever the file makes of them; "" in files of early versions.
        metrics: COCO metrics of the file, run in LiteRT.
        score_threshold: score from which its detections are best used (highest F1), which its metadata say,
            too; 0 where none found an object.
        drop: the SavedModel's mAP@.50 less the file's.
        max_drop: bound on it.
        drop_interval: smallest and largest value that the drop has on 95 % of splits of this size, by the
            bootstrap over the split's images; None where it is not known.
        size_bytes: size.
        latency_ms: number of threads to median milliseconds of an inference; empty where it was not measured.
            Early files have one number, of one thread.
        peak_memory_bytes: by which loading it and a first inference raise a process's memory; None where no
            limit asked for it.
        exceeded: a clause for each limit on size, latency or memory that it is beyond.
        network: raw heads against the network that the file was made from; None where it was not measured.
        boxes: detections against the SavedModel's; None where it was not measured.
        apart: a clause for the heads and for the boxes where they are beyond their bound.
        passed: whether the drop is within the bound, no limit is exceeded, and nothing is apart.
    """

    file: str = ""
    format: str = ""
    quantization: str = "none"
    made_from: str = ""
    metrics: Mapping[str, float]
    score_threshold: float = dataclasses.field(default=0.0, metadata=OMIT_DEFAULT)
    drop: float = 0.0
    max_drop: float = 0.0
    drop_interval: tuple[float, float] | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    size_bytes: int = 0
    latency_ms: Mapping[str, float] | float | None = None
    peak_memory_bytes: int | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    exceeded: list[str] = dataclasses.field(default_factory=list, metadata=OMIT_DEFAULT)
    network: NetworkParity | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    boxes: BoxParity | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    apart: list[str] = dataclasses.field(default_factory=list, metadata=OMIT_DEFAULT)
    passed: bool = False

    @property
    def within_noise(self) -> bool:
        """Whether the bound on the drop lies where the drop itself may: the split is too small to tell."""
        return self.drop_interval is not None and (
            self.drop_interval[0] <= self.max_drop <= self.drop_interval[1]
        )

    @property
    def latencies(self) -> list[tuple[int, float]]:
        """Number of threads and median milliseconds, fewest threads first."""
        known = {"1": self.latency_ms} if isinstance(self.latency_ms, int | float) else self.latency_ms or {}
        return sorted((int(threads), milliseconds) for threads, milliseconds in known.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityReport:
    """What parity.json holds.

    Attributes:
        split: split measured on.
        images: images in it.
        reference: COCO metrics of the SavedModel.
        files: one entry a file.
        blessed: whether every file is within its bound.
        reasons: a line for each file that failed; where none did, for each file.
    """

    split: str = ""
    images: int = 0
    reference: Mapping[str, float] = dataclasses.field(default_factory=dict)
    files: list[FileReport]
    blessed: bool = False
    reasons: list[str] = dataclasses.field(default_factory=list)


PARITY = JsonFile(
    name="parity.json", content=ParityReport, writer="TFLiteExporter", remedy="export the detector again"
)
