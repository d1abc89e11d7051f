"""Annotations in many files, which several processes may read."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from detection_core.datasets.annotated_images import AnnotatedImage, Annotations, Rejected


class Finding(NamedTuple):
    """What a file has of one image.

    Attributes:
        image: None if it is rejected, or if the file is another tool's.
        fault: reason and detail of a rejected image; empty for others.
        classes: class name to id, 0 for none; empty for formats whose files have no ids.
        keypoint_names: class name to the names of its keypoints, if the file has them.
    """

    image: AnnotatedImage | None = None
    fault: Sequence[str] = ()
    classes: Mapping[str, int] = {}
    keypoint_names: Mapping[str, Sequence[str]] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManyFiles:
    """The annotation files of a split.

    Attributes:
        paths: in the order of reading.
        count: returns about how many images they have.
        read: returns what a file has; depends on nothing but the files, so that any process may call it.
        gather: makes the annotations from each path with what its file has, in the order of reading.
    """

    paths: Sequence[str]
    count: Callable[[], int]
    read: Callable[[str], Iterable[Finding]]
    gather: Callable[[Iterable[tuple[str, Finding]]], Annotations]

    def annotations(self) -> Annotations:
        """Read the files one after the other, while the images are iterated."""
        return self.gather((path, finding) for path in self.paths for finding in self.read(path))


def find_image(read: Callable[[str], AnnotatedImage | None]) -> Callable[[str], Iterator[Finding]]:
    """Return the `ManyFiles.read` of files with one image each; `read` may raise Rejected."""

    def find(path: str) -> Iterator[Finding]:
        try:
            found = Finding(read(path))
        except Rejected as e:
            found = Finding(fault=(e.reason, e.detail))
        yield found

    return find
