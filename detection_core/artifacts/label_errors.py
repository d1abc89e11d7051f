"""Suspected label errors, `label_errors.json`: `detflow data labels` ranks them."""

import dataclasses
from collections.abc import Sequence

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT

KINDS = (OVERLOOKED, BADLY_LOCATED, SWAPPED) = ("overlooked", "badly_located", "swapped")
"""An object without a label, a label whose box is wrong, and a label of the wrong class."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelError:
    """A suspected error.

    Attributes:
        kind: one of `KINDS`.
        score: 0 to 1; the lower, the more likely is an error.
        split: of the examples.
        source_id: id of the image.
        record: its number in the split, from 0.
        file: name of its file, as annotated.
        detected: class of the detection.
        detected_score: its score.
        detected_box: ymin, xmin, ymax, xmax of the detection, normalised.
        label: class of the label; "" for an overlooked object.
        label_box: its box, likewise; None for an overlooked object.
    """

    kind: str
    score: float
    split: str
    source_id: str
    record: int
    file: str
    detected: str
    detected_score: float
    detected_box: list[float]
    label: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)
    label_box: list[float] | None = dataclasses.field(default=None, metadata=OMIT_DEFAULT)

    @property
    def note(self) -> str:
        """Description in a few words."""
        found = f"detected {self.detected} {self.detected_score:.2f}"
        return f"{self.kind.replace('_', ' ')} {self.score:.2f}: " + (
            f"labelled {self.label}, {found}" if self.label else found
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageScore:
    """The score of an image's labels.

    Attributes:
        split: of the examples.
        source_id: id of the image.
        score: 0 to 1; the lower, the more likely is an error.
    """

    split: str
    source_id: str
    score: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelErrors:
    """The content of label_errors.json.

    Attributes:
        errors: of each kind the most likely ones first.
        images: every compared image, the lowest score first.
        low_score: detections above this score show badly located labels.
        high_score: detections from this score on show the other two kinds.
        folds: number of detectors of the cross-validation; 0 without it.
    """

    errors: Sequence[LabelError]
    images: Sequence[ImageScore]
    low_score: float
    high_score: float
    folds: int = 0


LABEL_ERRORS = JsonFile(
    name="label_errors.json",
    content=LabelErrors,
    writer="detflow data labels",
    remedy="look for label errors again",
)
