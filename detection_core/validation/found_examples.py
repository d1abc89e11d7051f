"""Adds ids and pictures to the examples of findings, in a second pass over their records."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from PIL import Image

from detection_core.artifacts.data_findings import Finding, FoundExample, OtherExample
from detection_core.evaluation.drawing import jpeg_bytes
from detection_core.storage import files
from detection_core.validation.labelled_images import LabelledImage
from detection_core.validation.sample_pictures import Emphasis, draw_image, pixels_of

PICTURES = "pictures"
"""Folder next to findings.json."""
_PICTURES_A_FINDING, _ALL_PICTURES = 6, 60
_SIDES = (320, 400)

ReadRecords = Callable[[str, Collection[int]], Iterator[LabelledImage]]
"""(split, record numbers) to the records."""


_Marked = tuple[float, ...]
"""The marked box; empty for the whole image."""
_Wanted = Mapping[int, Collection[_Marked]]
"""Record to its marked boxes, one per picture."""


@dataclasses.dataclass(frozen=True)
class _Seen:
    source_id: str
    pictures: Mapping[_Marked, Image.Image]


def complete_examples(
    findings: Sequence[Finding], read: ReadRecords, classes: Sequence[str], folder: str
) -> list[Finding]:
    """Return the findings with ids for all examples; the first ones get pictures in `folder`/pictures."""
    wanted: dict[str, dict[int, set[_Marked]]] = defaultdict(lambda: defaultdict(set))
    for finding in findings:
        for example in finding.examples:
            for split, record, _ in _records(example):
                wanted[split][record].update()
    for example in _to_draw(findings):
        for split, record, marked in _records(example):
            wanted[split][record].add(marked)
    seen = {
        (split, record): found
        for split, records in wanted.items()
        for record, found in _look(read(split, records), records, classes)
    }
    names = _names()
    return [
        dataclasses.replace(finding, examples=[_complete(e, seen, names, folder) for e in finding.examples])
        for finding in findings
    ]


def _to_draw(findings: Sequence[Finding]) -> list[FoundExample]:
    return [e for finding in findings for e in finding.examples[:_PICTURES_A_FINDING]][:_ALL_PICTURES]


def _records(example: FoundExample) -> list[tuple[str, int, _Marked]]:
    here = (example.split, example.record, tuple(example.box or ()))
    return [here, *([(example.other.split, example.other.record, ())] if example.other else [])]


def _look(
    images: Iterator[LabelledImage], records: _Wanted, classes: Sequence[str]
) -> Iterator[tuple[int, _Seen]]:
    for image in images:
        marks = records[image.record]
        pixels = pixels_of(image) if marks else None
        pictures = {
            marked: draw_image(pixels, image, classes, sides=_SIDES, emphasis=Emphasis(box=marked or None))
            for marked in marks
            if pixels is not None
        }
        yield image.record, _Seen(image.source_id or image.filename, pictures)


def _names() -> Iterator[str]:
    number = 0
    while True:
        yield f"{number:03d}.jpg"
        number += 1


def _complete(
    example: FoundExample, seen: Mapping[tuple[str, int], _Seen], names: Iterator[str], folder: str
) -> FoundExample:
    here, other = seen.get((example.split, example.record)), example.other
    there = seen.get((other.split, other.record)) if other else None
    meant = [(s, marked) for s, (_, _, marked) in zip((here, there), _records(example), strict=False)]
    pictures = [s.pictures[marked] for s, marked in meant if s and marked in s.pictures]
    picture = ""
    if pictures:
        picture = next(names)
        files.write_bytes(files.join(folder, PICTURES, picture), jpeg_bytes(_side_by_side(pictures)))
    if other and there:
        other = OtherExample(split=other.split, source_id=there.source_id, record=other.record)
    source_id = here.source_id if here else example.source_id
    return dataclasses.replace(example, source_id=source_id, other=other, picture=picture)


def _side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    gap = 6
    width = sum(p.width for p in pictures) + gap * (len(pictures) - 1)
    page = Image.new("RGB", (width, max(p.height for p in pictures)), "white")
    left = 0
    for picture in pictures:
        page.paste(picture, (left, 0))
        left += picture.width + gap
    return page
