"""`Dataset`: read the folder layouts of MediaPipe Model Maker."""

import os
from typing import Self

from detection_core.data.label_map import BACKGROUND
from detection_core.storage import files
from detflow.argument_checks import check_counts
from detflow.object_detector import annotated_sets
from detflow.object_detector.data_loader import DataLoader, Path, make_prefix

_IMAGES, _ANNOTATIONS, _LABELS = "images", "Annotations", "labels.json"
_IMAGES_OF_A_SHARD, _MOST_SHARDS = 100, 10


class Dataset(DataLoader):
    """A `DataLoader` with the names of MediaPipe Model Maker."""

    @property
    def label_names(self) -> list[str]:
        """Class names, the background first."""
        return [BACKGROUND, *(self.label_map[number] for number in sorted(self.label_map))]

    @property
    def num_classes(self) -> int:
        """Number of classes, including the background."""
        return len(self.label_names)

    @classmethod
    def from_coco_folder(
        cls, data_dir: Path, max_num_images: int | None = None, cache_dir: Path | None = None
    ) -> Self:
        """Read a folder with `images` and `labels.json`, COCO JSON.

        Args:
            data_dir: the folder.
            max_num_images: most images; None: all.
            cache_dir: folder of the records; None: a temporary one, deleted with the process.

        Raises:
            ConfigError: for an argument that cannot be used, naming it.
            DataError: when files are missing, or more than one image in a hundred cannot be used.
        """
        labels = files.join(os.fspath(data_dir), _LABELS)
        return cls._from(data_dir, "coco", labels, max_num_images, cache_dir)

    @classmethod
    def from_pascal_voc_folder(
        cls, data_dir: Path, max_num_images: int | None = None, cache_dir: Path | None = None
    ) -> Self:
        """Read a folder with `images` and `Annotations`, Pascal VOC's XML files.

        Arguments and errors are those of `from_coco_folder`.
        """
        annotations = files.join(os.fspath(data_dir), _ANNOTATIONS)
        return cls._from(data_dir, "voc", annotations, max_num_images, cache_dir)

    @classmethod
    def _from(
        cls, data_dir: Path, data_format: str, annotations: str, most: int | None, cache_dir: Path | None
    ) -> Self:
        check_counts(max_num_images=most)
        images = files.join(os.fspath(data_dir), _IMAGES)
        found = annotated_sets.read_set(data_format, "", {"annotations": annotations, "images": images})
        found.categories.pop(BACKGROUND, None)
        part = found.taken(most=most)
        classes = annotated_sets.class_ids([part])
        shards = min(-(-len(part.images) // _IMAGES_OF_A_SHARD), _MOST_SHARDS)
        made_from = annotated_sets.fingerprint({"": part}, classes=sorted(classes.items()))
        return cls._kept(make_prefix(cache_dir, None, made_from), part, classes, shards, made_from)
