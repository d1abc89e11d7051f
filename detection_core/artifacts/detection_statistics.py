"""Statistics of what a detector finds (detection_statistics.json), and what later detections show."""

import dataclasses
from collections.abc import Mapping

from detection_core.artifacts.json_file import JsonFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinnedValues:
    """One property of detections or images.

    Attributes:
        bins: name of each bin.
        values: bin of each detection or image, in order; -1 if it is unknown.
    """

    bins: list[str]
    values: list[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DetectionStatistics:
    """The content of detection_statistics.json.

    Attributes:
        split: that was evaluated.
        min_score: only detections from this score on are counted.
        images: number of images of the split; the rest describes a sample of them.
        detections: number of detections of each image.
        of_detections: name of a property to the values of all detections, image by image.
        of_images: name of a property to the values of all images.
    """

    split: str
    min_score: float
    images: int
    detections: list[int]
    of_detections: Mapping[str, BinnedValues]
    of_images: Mapping[str, BinnedValues]

    def __post_init__(self) -> None:
        for values, count in (
            *((found.values, sum(self.detections)) for found in self.of_detections.values()),
            *((found.values, len(self.detections)) for found in self.of_images.values()),
        ):
            if len(values) != count:
                raise ValueError(f"expected {count} values of a property, found {len(values)}")


DETECTION_STATISTICS = JsonFile(
    name="detection_statistics.json",
    content=DetectionStatistics,
    writer="Evaluator",
    remedy="evaluate the model and publish it again",
    indent=None,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedProperty:
    """A property of served images beside that of the evaluated split.

    Attributes:
        name: of the property.
        divergence: Jensen-Shannon divergence in bits, from 0 (equal) to 1 (disjoint).
        threshold: divergences above it are drift.
        most_changed: the bin whose share changed most.
        before: its share in the evaluated split.
        after: its share in the served images.
        bins: name of each bin.
        counts: by bin, of the evaluated split and of the served images.
    """

    name: str
    divergence: float
    threshold: float
    most_changed: str
    before: float
    after: float
    bins: list[str]
    counts: tuple[list[int], list[int]]

    @property
    def drifted(self) -> bool:
        """Whether the divergence is above its threshold."""
        return self.divergence > self.threshold

    @property
    def text(self) -> str:
        """Description of the change."""
        return (
            f"{self.name} (above all {self.most_changed}: {self.before:.1%} when evaluated, {self.after:.1%}"
            f" now; divergence {self.divergence:.3f}, threshold {self.threshold:.3f})"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Monitoring:
    """The content of monitoring.json.

    Attributes:
        model: whose statistics these are compared with.
        statistics: digest of its statistics.
        images: number of served images.
        left_out: reason to number of entries that could not be used.
        compared: the properties that both have; those that drifted first.
        not_judged: why nothing was compared; "" if something was.
        triggered: whether this comparison, or an earlier one of the same statistics, started `on_drift`.
    """

    model: str
    statistics: str
    images: int
    left_out: Mapping[str, int]
    compared: list[ComparedProperty]
    not_judged: str = ""
    triggered: bool = False

    @property
    def drifted(self) -> list[ComparedProperty]:
        """The properties that drifted."""
        return [found for found in self.compared if found.drifted]


MONITORING = JsonFile(
    name="monitoring.json", content=Monitoring, writer="detflow monitor", remedy="compare again"
)
