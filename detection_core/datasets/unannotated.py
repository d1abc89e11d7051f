"""Images that no annotation is about: background, or not looked at yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import get_args

from detection_core.allowed_values import UnannotatedImages
from detection_core.datasets.annotated_images import AnnotatedImage, Rejected, checked_id, checked_text
from detection_core.datasets.image_files import ImageFiles
from detection_core.errors import ConfigError

AUTO, BACKGROUND, LEAVE_OUT = CHOICES = get_args(UnannotatedImages)


def check_unannotated_images(value: str) -> str:
    """Return a value of `data.unannotated_images`, checked.

    Raises:
        ConfigError: for another word.
    """
    if value not in CHOICES:
        raise ConfigError(f"expected one of {list(CHOICES)}, found {value!r}", where="unannotated_images")
    return value


def image_without_objects(source_id: str, filename: str, path: str) -> AnnotatedImage:
    """Return an image that shows nothing.

    Raises:
        Rejected: when it cannot be called so.
    """
    checked_text(filename, "the image's name")
    return AnnotatedImage(checked_id(source_id), filename, path, 0, 0, [])


def images_without_annotation(
    available: ImageFiles, about: Collection[str], used: Iterable[str], below: str = ""
) -> list[AnnotatedImage]:
    """Return the images that no annotation is about, called by their names without suffix.

    An image keeps this id, and with it its split, when somebody writes an annotation file of its name.

    Args:
        available: the images that there are.
        about: paths of those that annotations are about, sound ones or not.
        used: ids of those.
        below: only those in this folder, relative to that of the images.
    """
    taken, found = set(used), []
    for name in available:
        path = available.path(name)
        if path in about or not name.startswith(below):
            continue
        bare = name.rpartition(".")[0]
        try:
            image = image_without_objects(name if bare in taken else bare, name, path)
        except Rejected:  # a name that no record can have
            continue
        taken.add(image.source_id)
        found.append(image)
    return found


def left_over(
    unannotated: Sequence[Iterable[AnnotatedImage]], about: Sequence[Iterable[str]]
) -> list[list[AnnotatedImage]]:
    """Return the images of each split that no annotation of any split is about, each in one split alone.

    Args:
        unannotated: of each split, which may share a folder of images.
        about: paths of the images that annotations of each split are about.
    """
    known = {path for paths in about for path in paths}
    return [list(_unseen(images, known)) for images in unannotated]


def _unseen(images: Iterable[AnnotatedImage], known: set[str]) -> Iterator[AnnotatedImage]:
    for image in images:
        if image.path not in known:
            known.add(image.path)
            yield image
