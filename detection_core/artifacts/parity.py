"""The parity artifact: parity.json compares each TensorFlow Lite file with the SavedModel."""

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerNoise:
    """Noise of a file's operation, compared with the file's source network.

    Attributes:
        layer: layer of the network.
        operation: operation in the file, such as `CONV_2D`.
        db: signal-to-noise ratio in decibels, at most 100.
    """

    layer: str = ""
    operation: str = ""
    db: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkParity:
    """A file's network compared with its source network on the same inputs.

    Attributes:
        images: number of images compared.
        least_db: least signal-to-noise ratio that each head must reach.
        heads: raw head, such as `class_logits`, to its signal-to-noise ratio in decibels, at most 100.
        unmatched: tensor names of the file's raw heads that the network lacks.
        layer: first layer in execution order below `least_db`; "" if there is none.
        operation: that layer's operation in the file, such as `CONV_2D`.
        layer_db: that layer's ratio; None if there is none.
        layers: all layers compared, in execution order.
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
        """The operation with the most noise; None if none was compared."""
        return min(self.layers, key=lambda layer: layer.db, default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoxParity:
    """A file's detections compared with the SavedModel's, over the whole split.

    Attributes:
        detections: SavedModel detections, with scores that count, that a file differing only by rounding must
            have.
        undecided: further detections missing from the file. Its NMS kept another box of similar score, or its
            list was full.
        matched: fraction of `detections` in the file: same class, IoU at least 0.5, at least half the score.
        least_matched: lower bound of `matched`.
        mean_iou: mean IoU of the matched ones; None if there are none.
        mean_score_difference: mean absolute score difference of the matched ones; None if there are none.
        score_noise: 95th percentile of these differences; None if there are none.
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
    """One file compared with its SavedModel.

    Attributes:
        file: name.
        format: such as `float32` or `int8`.
        quantization: `none`, `aware` (quantization-aware training) or `post_training`.
        made_from: source network: `float` or `quantization_aware`, in any file format.
        metrics: COCO metrics of the file, run in LiteRT.
        score_threshold: recommended minimum score (highest F1), also in the file's metadata; 0 if no
            detection found an object.
        drop: the SavedModel's mAP@.50 minus the file's.
        max_drop: upper bound of `drop`.
        drop_interval: 95 % confidence interval of the drop, by bootstrap over the split's images; None if
            unknown.
        size_bytes: size of the file.
        latency_ms: number of threads to median milliseconds per inference; empty if not measured.
        peak_memory_bytes: memory increase of a process by loading and a first inference; None without a limit
            on it.
        exceeded: a clause for each exceeded limit on size, latency or memory.
        network: raw heads compared with the source network; None if not measured.
        boxes: detections compared with the SavedModel's; None if not measured.
        apart: a clause each for heads, boxes, masks and keypoints beyond their bounds.
        passed: whether the drop is within the bound, no limit is exceeded, and `apart` is empty.
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
    latency_ms: Mapping[str, float] = dataclasses.field(default_factory=dict)
    peak_memory_bytes: int | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    exceeded: list[str] = dataclasses.field(default_factory=list, metadata=OMIT_DEFAULT)
    network: NetworkParity | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    boxes: BoxParity | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)
    apart: list[str] = dataclasses.field(default_factory=list, metadata=OMIT_DEFAULT)
    passed: bool = False

    @property
    def name(self) -> str:
        """Its format, and whether it lacks post-processing: `int8` or `int8_headless`."""
        return f"{self.format}{'_headless' if self.file.endswith('_headless.tflite') else ''}"

    @property
    def within_noise(self) -> bool:
        """Whether the bound lies in the drop's confidence interval: the split is too small to decide."""
        return self.drop_interval is not None and (
            self.drop_interval[0] <= self.max_drop <= self.drop_interval[1]
        )

    @property
    def latencies(self) -> list[tuple[int, float]]:
        """Number of threads and median milliseconds, fewest threads first."""
        return sorted((int(threads), milliseconds) for threads, milliseconds in self.latency_ms.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityReport:
    """The content of parity.json.

    Attributes:
        split: split used.
        images: number of images in it.
        reference: COCO metrics of the SavedModel.
        files: one entry per file.
        blessed: whether every file passed.
        reasons: a line per failed file; if none failed, a line per file.
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
