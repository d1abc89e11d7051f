"""What formats share whose files are entries of images, each with its name and its objects."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    Annotations,
    Rejected,
    Rejection,
    Rejections,
    checked_id,
    checked_text,
)
from detection_core.datasets.formats.annotation_files import Source
from detection_core.datasets.image_files import ImageFiles
from detection_core.datasets.unannotated import images_without_annotation


def read_entries(
    sources: Sequence[Source],
    entries_of: Callable[[str], Iterable[Any]],
    name_of: Callable[[Mapping[str, Any]], object],
    objects_of: Callable[[Mapping[str, Any]], list[AnnotatedObject]],
) -> Annotations:
    """Read files of entries. The categories are the classes that occur.

    Images in the folders that no entry is about were not looked at yet.

    Args:
        sources: of the split.
        entries_of: path of a file to what it lists.
        name_of: an entry to the image's name.
        objects_of: an entry to its objects; it raises Rejected.
    """
    found = Annotations(categories={}, images=(), rejected=Rejections())
    folders = {source.images: ImageFiles(source.images) for source in sources}
    used: list[str] = []

    def images(source: Source) -> Iterator[AnnotatedImage]:
        available, file = folders[source.images], source.annotations.rpartition("/")[2]
        for number, entry in enumerate(entries_of(source.annotations), start=1):
            name: object = number
            try:
                if not isinstance(entry, Mapping):
                    raise Rejected("malformed_record", f"expected an image, found {entry!r:.80}")
                name = name_of(entry)
                filename = available.find(checked_text(name, "the image's name"))
                objects = objects_of(entry)
            except Rejected as e:
                found.rejected.append(Rejection(file, f"{name}"[:200], e.reason, e.detail))
                found.about.update(available.paths_like(name) if isinstance(name, str) else ())
                continue
            found.categories.update((item.name, 0) for item in objects)
            used.append(checked_id(filename))
            found.about.add(path := available.path(filename))
            yield AnnotatedImage(filename, filename, path, 0, 0, objects)

    def all_images() -> Iterator[AnnotatedImage]:
        yield from itertools.chain.from_iterable(map(images, sources))
        for available in folders.values():
            found.unannotated.extend(images_without_annotation(available, found.about, used))

    return Annotations(
        categories=found.categories,
        images=all_images(),
        rejected=found.rejected,
        unannotated=found.unannotated,
        about=found.about,
    )
