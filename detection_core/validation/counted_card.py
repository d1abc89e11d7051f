"""Counts what a dataset card says at least, for examples that have none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from detection_core.artifacts.dataset_card import ClassCard, DatasetCard, SplitCard, Totals
from detection_core.data.label_map import LabelMap
from detection_core.validation.labelled_images import LabelledImage


class ObjectCounter:
    """Counts the objects of a split as its images come; crowd regions are among them, as in a card."""

    def __init__(self) -> None:
        self._images = self._empty = 0
        self._classes: Counter[int] = Counter()

    def add(self, image: LabelledImage) -> None:
        """Count an image."""
        self._images += 1
        self._empty += not len(image.classes)
        self._classes.update(image.classes.tolist())

    def card(self, label_map: LabelMap) -> SplitCard:
        """Return what was counted."""
        return SplitCard(
            images=self._images,
            empty_images=self._empty,
            objects=self._classes.total(),
            classes={name: self._classes[label] for label, name in enumerate(label_map.names)},
        )


def counted_card(label_map: LabelMap, splits: Mapping[str, SplitCard]) -> DatasetCard:
    """Return the card of a data set.

    Args:
        label_map: of the examples.
        splits: split to what was counted of it.
    """
    return DatasetCard(
        format="TFRecord",
        classes=[
            ClassCard(id=label + 1, name=name, objects=sum(split.classes[name] for split in splits.values()))
            for label, name in enumerate(label_map.names)
        ],
        splits=splits,
        total=Totals(
            images=sum(split.images or 0 for split in splits.values()),
            empty_images=sum(split.empty_images for split in splits.values()),
            objects=sum(split.objects for split in splits.values()),
        ),
    )
