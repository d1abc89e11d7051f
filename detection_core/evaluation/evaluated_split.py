"""A detector's results on a split, with cached metrics and matches."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from detection_core.evaluation import results
from detection_core.evaluation.coco_matching import MatchTable, match_images
from detection_core.evaluation.coco_metrics import BOXES, MASKS, CocoResult, Kind, accumulate
from detection_core.storage.spooled import Spooled
from detection_core.structures import Instances

# Steps of a rounded score threshold.
_STEPS = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatedSplit:
    """Ground truth and detections of a split, the source of metrics, curves, counts and pictures.

    Attributes:
        images: every image once.
        class_names: class in [0, C) to name.
        frequencies: class in [0, C) to its entry of `data.label_map.FREQUENCIES`, where known.
        labelled_only: for all but Pascal VOC's and Open Images' metrics, leave out detections of classes that
            were not verified in an image.
        compares_masks: match detections and objects by their masks instead of their boxes.
        tables: COCO's name of a shape to its matches, those of `table` so far.
        pixels: yields the images again, uint8 [H, W, 3], with their ground truth; without it none are drawn.
    """

    images: Sequence[results.EvaluatedImage]
    class_names: Mapping[int, str]
    frequencies: Mapping[int, str] = dataclasses.field(default_factory=dict)
    labelled_only: bool = False
    compares_masks: bool = False
    tables: dict[str, MatchTable] = dataclasses.field(default_factory=dict, init=False, repr=False)
    pixels: Callable[[], Iterable[tuple[np.ndarray, Instances]]] = tuple

    @functools.cached_property
    def counted(self) -> Sequence[results.EvaluatedImage]:
        """Every image once, with the detections that count for COCO's metrics."""
        return Spooled(map(results.only_labelled, self.images)) if self.labelled_only else self.images

    @functools.cached_property
    def coco(self) -> CocoResult:
        """COCO's precision and recall of boxes."""
        return self.coco_of(BOXES)

    @functools.cached_property
    def compared(self) -> CocoResult:
        """COCO's precision and recall of what `matches` compares: boxes or masks."""
        return self.coco_of(MASKS) if self.compares_masks else self.coco

    def coco_of(self, kind: Kind) -> CocoResult:
        """Return COCO's precision and recall of a kind of COCO's own."""
        return accumulate(self.table(kind), self.class_names, kind)

    def table(self, kind: Kind) -> MatchTable:
        """Return all matches of a kind of COCO's own."""
        if kind.iou_type not in self.tables:
            self.tables[kind.iou_type] = match_images(self.counted, self.class_names, kind)
        return self.tables[kind.iou_type]

    def part(self, places: np.ndarray) -> "EvaluatedSplit":
        """Return some images, by rising place, without pixels; they are not matched again."""
        part = dataclasses.replace(
            self, images=Spooled(self.images[p] for p in places.tolist()), pixels=tuple
        )
        part.tables.update({shape: table.of_images(places) for shape, table in self.tables.items()})
        return part

    @functools.cached_property
    def matches(self) -> Sequence[results.ImageMatch]:
        """Detections and objects of each image, matched at IoU 0.5."""
        return Spooled(results.match_image(image, masks=self.compares_masks) for image in self.counted)

    @functools.cached_property
    def best_score(self) -> float:
        """The score with the highest F1 over all classes."""
        return results.best_score_threshold(self.counted, self.matches)

    @functools.cached_property
    def score_threshold(self) -> float:
        """`best_score` for programs that show detections; 0, which shows all, if none found an object.

        It is rounded down to four digits, so that floating-point differences hide no detection.
        """
        if not results.finds_any(self.matches):
            return 0.0
        return math.floor(self.best_score * _STEPS) / _STEPS
