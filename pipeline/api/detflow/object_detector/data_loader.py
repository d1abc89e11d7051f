"""`DataLoader`: annotated images as records for training and evaluation."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Self

from detection_core.data.label_map import LabelMap
from detection_core.data.record_format import write_record
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detflow.argument_checks import check_count, check_counts, is_number
from detflow.object_detector import annotated_sets, record_cache
from detflow.object_detector.annotated_sets import SPLITS, AnnotatedSet
from detflow.object_detector.record_cache import Classes

Path = str | os.PathLike[str]


class DataLoader:
    """Annotated images as TFRecord files, with the names of their classes.

    Attributes:
        tfrecord_file_patten: pattern of the files; the spelling is Model Maker's.
        size: number of images.
        label_map: class ids, from 1, to names.
        annotations_json_file: COCO JSON of a Model Maker cache, or None; not read.
    """

    def __init__(
        self,
        tfrecord_file_patten: Path,
        size: int,
        label_map: Classes,
        annotations_json_file: Path | None = None,
    ) -> None:
        """Wrap existing records.

        Args:
            tfrecord_file_patten: pattern of `tf.train.Example` files with the Object Detection API's
                features.
            size: number of images.
            label_map: names in the order of their ids, ids to names, a .yaml file, or coco, voc or waymo.
            annotations_json_file: stored, not read.

        Raises:
            ConfigError: for an invalid label map or size.
        """
        check_count("size", size)
        self.tfrecord_file_patten = os.fspath(tfrecord_file_patten)
        self.size = size
        self.label_map = record_cache.read_classes(label_map)
        self.annotations_json_file = _text(annotations_json_file)

    @classmethod
    def from_pascal_voc(  # noqa: PLR0913, PLR0917 -- Model Maker's arguments
        cls,
        images_dir: Path,
        annotations_dir: Path,
        label_map: Classes,
        annotation_filenames: Collection[str] | None = None,
        ignore_difficult_instances: bool = False,
        num_shards: int = 100,
        max_num_images: int | None = None,
        cache_dir: Path | None = None,
        cache_prefix_filename: str | None = None,
    ) -> DataLoader:
        """Read a folder of Pascal VOC's XML files.

        Args:
            images_dir: folder of the images.
            annotations_dir: folder of the XML files.
            label_map: as of the constructor.
            annotation_filenames: names of the XML files to read, without `.xml`; None: all.
            ignore_difficult_instances: skip objects marked as difficult.
            num_shards: most TFRecord files to write.
            max_num_images: most images; None: all.
            cache_dir: folder of the records; None: a temporary one, deleted with the process. Changed
                annotations, images or arguments overwrite the cache.
            cache_prefix_filename: prefix of the files' names; None: made from the arguments.

        Raises:
            ConfigError: for an argument that cannot be used, naming it.
            DataError: when folders or files are missing, or more than one image in a hundred cannot be used.
        """
        classes = record_cache.read_classes(label_map)
        images, annotations = os.fspath(images_dir), os.fspath(annotations_dir)
        check_counts(num_shards=num_shards, max_num_images=max_num_images)
        found = annotated_sets.read_set("voc", "", {"annotations": annotations, "images": images})
        part = found.taken(
            most=max_num_images, ids=annotation_filenames, difficult=not ignore_difficult_instances
        )
        made_from = annotated_sets.fingerprint({"": part}, classes=sorted(classes.items()), shards=num_shards)
        prefix = make_prefix(cache_dir, cache_prefix_filename, made_from)
        return cls._kept(prefix, part, classes, num_shards, made_from)

    @classmethod
    def from_csv(
        cls,
        filename: Path,
        images_dir: Path | None = None,
        delimiter: str = ",",
        quotechar: str = '"',
        num_shards: int = 10,
        max_num_images: int | None = None,
        cache_dir: Path | None = None,
        cache_prefix_filename: str | None = None,
    ) -> list[DataLoader | None]:
        """Read a CSV file with one object per row: set, image, class and corners in fractions of the image.

        Args:
            filename: the file; sets are TRAIN, VALIDATION and TEST; rows without a set are for training.
            images_dir: folder of the images; None: the file has paths, absolute or from the working folder.
            delimiter: between fields.
            quotechar: around fields.
            num_shards: most TFRecord files to write for a set.
            max_num_images: most images of a set; None: all.
            cache_dir: as in `from_pascal_voc`.
            cache_prefix_filename: prefix of the files' names, after the set's name.

        Returns:
            The images for training, validation and test; None for a set that is not in the file.

        Raises:
            ConfigError: for an argument that cannot be used, naming it.
            DataError: when files are missing, or more than one image in a hundred cannot be used.
        """
        check_counts(num_shards=num_shards, max_num_images=max_num_images)
        sets = annotated_sets.read_csv(os.fspath(filename), _text(images_dir), delimiter, quotechar)
        return cls._of_sets(sets, max_num_images, cache_dir, cache_prefix_filename, num_shards)

    @classmethod
    def from_cache(cls, cache_prefix: Path) -> Self:
        """Read a cache of Model Maker or of this class.

        Args:
            cache_prefix: folder and prefix of the files' names.

        Raises:
            DataError: when there is no cache, or one of its files is missing or damaged.
        """
        found = record_cache.read_cache(os.fspath(cache_prefix))
        return cls(found.pattern, found.size, found.classes, found.annotations or None)

    @classmethod
    def from_coco(
        cls,
        images_dir: Path,
        annotations_file: Path,
        *,
        num_shards: int = 10,
        max_num_images: int | None = None,
        cache_dir: Path | None = None,
    ) -> DataLoader:
        """Read COCO JSON; class ids and names are the file's.

        Args:
            images_dir: folder of the images.
            annotations_file: the JSON file.
            num_shards: most TFRecord files to write.
            max_num_images: most images; None: all.
            cache_dir: as in `from_pascal_voc`.

        Raises:
            ConfigError: for an argument that cannot be used, naming it.
            DataError: when files are missing, or more than one image in a hundred cannot be used.
        """
        path, folder = os.fspath(annotations_file), os.fspath(images_dir)
        check_counts(num_shards=num_shards, max_num_images=max_num_images)
        found = annotated_sets.read_set("coco", "", {"annotations": path, "images": folder})
        sets = {annotated_sets.TRAIN: found}
        (loader,) = filter(None, cls._of_sets(sets, max_num_images, cache_dir, None, num_shards))
        return loader

    @classmethod
    def from_folder(
        cls,
        path: Path,
        data_format: str = "",
        *,
        num_shards: int = 10,
        max_num_images: int | None = None,
        cache_dir: Path | None = None,
    ) -> list[DataLoader | None]:
        """Read a data set of any supported format, independent of folder names.

        Args:
            path: folder of the data set, as in `detflow init`.
            data_format: coco, voc, yolo, csv, cvat, labelme, label_studio, createml, via, open_images or
                tfrecord; "": detected.
            num_shards: most TFRecord files to write for a set.
            max_num_images: most images of a set; None: all.
            cache_dir: as in `from_pascal_voc`.

        Returns:
            The images for training, validation and test; None for a missing set. A data set without splits is
            split 8 : 1 : 1.

        Raises:
            ConfigError: for an argument that cannot be used, naming it.
            DataError: when there is no data set, or more than one image in a hundred cannot be used.
        """
        check_counts(num_shards=num_shards, max_num_images=max_num_images)
        sets = annotated_sets.read_folder(os.fspath(path), data_format)
        return cls._of_sets(sets, max_num_images, cache_dir, None, num_shards)

    @classmethod
    def from_tfrecords(cls, pattern: Path, label_map: Classes | Path) -> DataLoader:
        """Read TFRecord files of the Object Detection API or of google/automl.

        Args:
            pattern: of the files.
            label_map: as in the constructor, or a label_map.pbtxt.

        Raises:
            ConfigError: for an invalid label map.
            DataError: when files are missing or damaged.
        """
        size = record_cache.count_images(files.glob(os.fspath(pattern)))
        if not size:
            raise DataError("expected TFRecord files with records, found none", where=os.fspath(pattern))
        if isinstance(label_map, os.PathLike):
            label_map = os.fspath(label_map)
        if isinstance(label_map, str) and label_map.endswith(".pbtxt"):
            from detection_core.config.label_map_file import load_label_map

            label_map = load_label_map(label_map).texts_by_id
        return cls(pattern, size, label_map)

    @classmethod
    def _kept(
        cls, prefix: str, part: AnnotatedSet, classes: Mapping[int, str], num_shards: int, made_from: str
    ) -> Self:
        """Write the cache of a set if needed, and read it."""
        record_cache.keep_records(prefix, part, classes, num_shards=num_shards, made_from=made_from)
        return cls.from_cache(prefix)

    @classmethod
    def _of_sets(
        cls,
        sets: Mapping[str, AnnotatedSet],
        most: int | None,
        cache_dir: Path | None,
        name: str | None,
        num_shards: int,
    ) -> list[DataLoader | None]:
        """Return a loader for each set's first images, and write its cache if needed."""
        sets = {split: part.taken(most=most) for split, part in sets.items()}
        classes = annotated_sets.class_ids(sets.values())
        made_from = annotated_sets.fingerprint(sets, classes=sorted(classes.items()), shards=num_shards)
        folder, _, name = make_prefix(cache_dir, name, made_from).rpartition("/")
        loaders: dict[str, DataLoader] = {}
        for split, part in sets.items():
            prefix = files.join(folder, f"{split}_{name}")
            loaders[split] = cls._kept(prefix, part, classes, num_shards, made_from)
        return [loaders.get(split) for split in SPLITS]

    def __len__(self) -> int:
        return self.size

    def split(self, fraction: float) -> tuple[DataLoader, DataLoader]:
        """Return two loaders: of the first images, and of the others.

        Args:
            fraction: fraction of images in the first loader, rounded down.

        Raises:
            ConfigError: when one of them would have no image.
            DataError: when the records cannot be read.
        """
        first = int(self.size * fraction) if is_number(fraction) and 0 < fraction < 1 else 0
        if not 0 < first < self.size:
            raise ConfigError(
                f"expected a fraction of {self.size} images with some on both sides, found {fraction}",
                where="fraction",
            )
        from detection_core.data.records import expand_patterns, read_records

        folder = _temporary_folder()
        paths = [files.join(folder, name) for name in ("first.tfrecord", "second.tfrecord")]
        with files.atomic_file(paths[0]) as head, files.atomic_file(paths[1]) as tail:
            number = 0
            for file in expand_patterns([self.tfrecord_file_patten], where="tfrecord_file_patten"):
                for record in read_records(file).as_numpy_iterator():
                    write_record(head if number < first else tail, record)
                    number += 1
        sizes = (first, self.size - first)
        head_loader, tail_loader = (
            type(self)(path, size, self.label_map) for path, size in zip(paths, sizes, strict=True)
        )
        return head_loader, tail_loader

    def as_label_map(self) -> LabelMap:
        """Return the classes in the format of the tasks."""
        return record_cache.as_label_map(self.label_map)


def _text(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


_temporary: list[ScratchFolder] = []


def _temporary_folder() -> str:
    """Return a new folder that lives as long as the process: a pattern may outlive its loader."""
    _temporary.append(ScratchFolder())
    return _temporary[-1].name


def make_prefix(cache_dir: Path | None, name: str | None, made_from: str) -> str:
    """Return the prefix of a cache, and create its folder.

    Without a folder it is a temporary one, deleted with the process. Without a name, the file names begin
    with the fingerprint of the sources.
    """
    folder = _temporary_folder() if cache_dir is None else os.fspath(cache_dir)
    files.make_dirs(folder)
    return files.join(folder, name or made_from[:32])
