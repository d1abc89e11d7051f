"""Gives the examples of findings their ids and pictures, in a second look at the records that are meant."""

from __future__ import annotations

import dataclasses
import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from PIL import Image

from detection_core.artifacts.data_findings import Finding, FoundExample, OtherExample
from detection_core.data.pixels import read_pixels
from detection_core.errors import DataError
from detection_core.evaluation.drawing import LabelledBox, draw_boxes, fit
from detection_core.storage import files
from detection_core.validation.labelled_images import LabelledImage

PICTURES = "pictures"
"""Folder beside findings.json."""
_PICTURES_A_FINDING, _ALL_PICTURES = 6, 60
_LONGEST, _SMALLEST, _QUALITY = 360, 240, 85

ReadSplit = Callable[[str], Iterator[LabelledImage]]


@dataclasses.dataclass(frozen=True)
class _Seen:
    source_id: str
    picture: Image.Image | None


def complete_examples(
    findings: Sequence[Finding], read: ReadSplit, classes: Sequence[str], folder: str
) -> list[Finding]:
    """Return findings whose examples have ids, and the first of them pictures with their boxes.

    Args:
        findings: whose examples tell split and record.
        read: reads a split.
        classes: names of the label map.
        folder: to write `pictures/*.jpg` to.
    """
    drawn = _to_draw(findings)
    wanted: dict[str, dict[int, bool]] = defaultdict(dict)
    for finding in findings:
        for example in finding.examples:
            for split, record in _records(example):
                wanted[split][record] = wanted[split].get(record, False) or (split, record) in drawn
    seen = {
        (split, record): found
        for split, records in wanted.items()
        for record, found in _look(read(split), records, classes)
    }
    names = _names()
    return [
        dataclasses.replace(finding, examples=[_complete(e, seen, names, folder) for e in finding.examples])
        for finding in findings
    ]


def _to_draw(findings: Sequence[Finding]) -> set[tuple[str, int]]:
    chosen = [e for finding in findings for e in finding.examples[:_PICTURES_A_FINDING]][:_ALL_PICTURES]
    return {place for example in chosen for place in _records(example)}


def _records(example: FoundExample) -> list[tuple[str, int]]:
    other = example.other
    return [(example.split, example.record), *([(other.split, other.record)] if other else [])]


def _look(
    images: Iterator[LabelledImage], records: Mapping[int, bool], classes: Sequence[str]
) -> Iterator[tuple[int, _Seen]]:
    last = max(records)
    for image in images:
        if image.record in records:
            picture = _draw(image, classes) if records[image.record] else None
            yield image.record, _Seen(image.source_id or image.filename, picture)
        if image.record >= last:
            return


def _draw(image: LabelledImage, classes: Sequence[str]) -> Image.Image | None:
    try:
        pixels = read_pixels(io.BytesIO(image.encoded))
    except DataError:
        return None
    boxes = [
        LabelledBox(
            box=tuple(box), label=max(int(label), 0), text=classes[label] if label >= 0 else "", dashed=crowd
        )
        for box, label, crowd in zip(image.boxes.tolist(), image.classes, image.is_crowd, strict=True)
    ]
    return draw_boxes(fit(pixels, longest=_LONGEST, smallest=_SMALLEST), boxes)


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
    pictures = [s.picture for s in (here, there) if s and s.picture]
    picture = ""
    if pictures:
        picture = next(names)
        stream = io.BytesIO()
        _side_by_side(pictures).save(stream, "JPEG", quality=_QUALITY)
        files.write_bytes(files.join(folder, PICTURES, picture), stream.getvalue())
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
