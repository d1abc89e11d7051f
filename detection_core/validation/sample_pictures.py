"""Draws examples: samples of a data set in one pass, of each class and the smallest boxes, and findings.

Examples of findings get their ids and pictures in a second pass over their records.
"""

import dataclasses
import io
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
from PIL import Image

from detection_core.artifacts.data_findings import Finding, FoundExample
from detection_core.artifacts.pictures import FOLDER, PICTURES, SAMPLE, SMALLEST, PictureEntry
from detection_core.data.image_header import ImageFault
from detection_core.data.pixels import one_large, read_pixels
from detection_core.datasets.masks import decode_mask_file
from detection_core.errors import DataError
from detection_core.evaluation.drawing import LabelledBox, draw_boxes, fit, jpeg_bytes
from detection_core.ops.mask_runs import encode_masks
from detection_core.storage import files
from detection_core.validation.checks import TRAIN
from detection_core.validation.labelled_images import LabelledImage

_SIDES, _CROP = (240, 320), 160
_MOST_SAMPLES, _A_CLASS, _SMALLEST_BOXES = 160, (2, 8), 12
_CONTEXT, _LEAST_CONTEXT = 3.0, 24.0


ReadRecords = Callable[[str, Collection[int]], Iterator[LabelledImage]]
"""(split, record numbers) to the records."""

_Record = tuple[bool, str, int]
"""(whether it is not the training split, split, number): the order of records."""


class SamplePictures:
    """Draws the first images of each class and the smallest boxes of all; other images are not decoded.

    ExampleGen orders images by a hash of their ids. So the first ones are a random but reproducible sample.
    Samples of parts of the records can be merged in any order. The order of the records decides.
    """

    def __init__(self, classes: Sequence[str]) -> None:
        least, most = _A_CLASS
        self._classes = classes
        self._each = min(most, max(least, _MOST_SAMPLES // max(1, len(classes))))
        # No class is drawn from a later image: each earlier one was drawn for another class, or for this one.
        self._first: dict[_Record, Counter[int]] = {}
        self._images: Counter[int] = Counter()
        # (side, record, place in it, entry, picture), the smallest first.
        self._smallest: list[tuple[float, _Record, int, PictureEntry, bytes]] = []

    def add(self, split: str, image: LabelledImage) -> None:
        """Add the next image."""
        record = (split != TRAIN, split, image.record)
        self._add_first(record, Counter(image.classes[image.classes >= 0].tolist()))
        self._add_smallest(record, image)

    def merge(self, other: "SamplePictures") -> None:
        """Add the sample of other records."""
        self._smallest = sorted([*self._smallest, *other._smallest])[:_SMALLEST_BOXES]
        first = sorted((self._first | other._first).items())
        self._first, self._images = {}, Counter()
        for record, labels in first:
            self._add_first(record, labels)

    def _add_first(self, record: _Record, labels: Counter[int]) -> None:
        if any(self._images[label] < _MOST_SAMPLES for label in labels):
            self._images.update(labels.keys())
            self._first[record] = labels

    def write(self, folder: str, read: ReadRecords) -> None:
        """Write `pictures/*.jpg` and `pictures/index.jsonl`: classes in order, then small boxes."""
        drawn = self._draw(read)
        for number, (*_, entry, picture) in enumerate(self._smallest):
            drawn.append((dataclasses.replace(entry, file=f"smallest-{number:02d}.jpg"), picture))
        place = files.join(folder, FOLDER)
        for entry, picture in drawn:
            files.write_bytes(files.join(place, entry.file), picture)
        PICTURES.write(place, [entry for entry, _ in drawn])

    def _draw(self, read: ReadRecords) -> list[tuple[PictureEntry, bytes]]:
        """Read and draw the sample of each class; images that do not decode are replaced by others."""
        pictures: dict[tuple[int, _Record], tuple[str, bytes]] = {}
        damaged: set[_Record] = set()
        while missing := [key for key in self._choose(damaged) if key not in pictures]:
            for split in {record[1] for _, record in missing}:
                for image in read(split, {record[2] for _, record in missing if record[1] == split}):
                    record, pixels = (split != TRAIN, split, image.record), pixels_of(image)
                    if pixels is None:
                        damaged.add(record)
                        continue
                    for label in (label for label, other in missing if other == record):
                        drawing = draw_image(pixels, image, self._classes, sides=_SIDES, label=label)
                        pictures[label, record] = _name(split, image), jpeg_bytes(drawing)
        drawn = []
        for (label, record), number in self._choose(damaged).items():
            where, picture = pictures[label, record]
            name = f"sample-{label:04d}-{number}.jpg"
            entry = PictureEntry(kind=SAMPLE, source_id=where, caption=self._classes[label], file=name)
            drawn.append((entry, picture))
        return drawn

    def _choose(self, damaged: Collection[_Record]) -> dict[tuple[int, _Record], int]:
        """Choose (class, record) of each picture, by class, with its number.

        An image is drawn for the rarest class with few pictures, and for new ones. A new class borrows
        another class's picture until it gets one.
        """
        chosen: dict[int, list[_Record]] = {}
        borrowed: set[int] = set()
        objects: Counter[int] = Counter()

        def rarity(label: int) -> tuple[int, int, int]:
            return 0 if label in borrowed else len(chosen.get(label, ())), objects[label], label

        for record, labels in self._first.items():
            objects.update(labels)
            found = sorted(rarity(label) for label in labels)
            few = [label for own, _, label in found if own < self._each and record not in damaged]
            wanted = [*few[:1], *(label for label in few[1:] if label not in chosen)]
            room = _MOST_SAMPLES - sum(map(len, chosen.values()))
            for number, label in enumerate(wanted[: max(0, room)]):
                if label in borrowed:
                    del chosen[label]
                borrowed = (borrowed - {label}) | ({label} if number else set())
                chosen.setdefault(label, []).append(record)
        return {(label, record): n for label in sorted(chosen) for n, record in enumerate(chosen[label])}

    def _add_smallest(self, record: _Record, image: LabelledImage) -> None:
        """Crop the boxes that are among the smallest so far, by the square root of the area in pixels."""
        edges = image.boxes[:, 2:] - image.boxes[:, :2]
        sides = np.sqrt(np.maximum(edges.prod(axis=1), 0.0) * image.height * image.width)
        largest = self._smallest[-1][0] if len(self._smallest) >= _SMALLEST_BOXES else np.inf
        order = np.argsort(sides, kind="stable")[:_SMALLEST_BOXES].tolist()
        rows = [row for row in order if not image.is_crowd[row] and sides[row] < largest]
        if not rows:
            return
        with one_large(image.height * image.width):
            if (pixels := pixels_of(image)) is None:
                return
            for place, row in enumerate(rows):
                label, side = int(image.classes[row]), float(sides[row])
                caption = f"{self._classes[label] if label >= 0 else 'no class'}, {side:.1f} px"
                entry = PictureEntry(
                    kind=SMALLEST, source_id=_name(record[1], image), caption=caption, file=""
                )
                picture = _crop(pixels, image.boxes[row], max(label, 0))
                self._smallest.append((side, record, place, entry, picture))
        self._smallest = sorted(self._smallest, key=lambda kept: kept[:3])[:_SMALLEST_BOXES]


def _name(split: str, image: LabelledImage) -> str:
    return f"{split}: {image.source_id or image.filename}"


def _crop(pixels: np.ndarray, box: np.ndarray, label: int) -> bytes:
    """Return an enlarged crop around a box, with the box drawn."""
    size = np.array(pixels.shape[:2])
    edges = np.asarray(box, np.float64).reshape(2, 2) * size
    reach = max(_LEAST_CONTEXT, _CONTEXT * float((edges[1] - edges[0]).max())) / 2
    # Shift the square inside the image.
    length = np.minimum(np.ceil(2 * reach), size).astype(int)
    first = np.clip(np.round(edges.mean(axis=0) - length / 2), 0, size - length).astype(int)
    last = first + length
    part = pixels[first[0] : last[0], first[1] : last[1]]
    inside = ((edges - first) / (last - first)).reshape(4)
    drawn = LabelledBox(box=box_of(inside), label=label)
    crop = fit(np.ascontiguousarray(part), longest=_CROP, smallest=_CROP)
    return jpeg_bytes(draw_boxes(crop, [drawn]))


Box = tuple[float, float, float, float]
_NOT_MEANT, _DETECTED = (150, 150, 150), (255, 0, 255)


def pixels_of(image: LabelledImage) -> np.ndarray | None:
    """Return the pixels of an example, uint8 [H, W, 3]; None if decoding fails."""
    try:
        return read_pixels(io.BytesIO(image.encoded))
    except DataError:
        return None


def box_of(values: np.ndarray) -> Box:
    """Return a row of boxes in the form of `LabelledBox`."""
    ymin, xmin, ymax, xmax = (float(value) for value in values)
    return ymin, xmin, ymax, xmax


def draw_image(
    pixels: np.ndarray,
    image: LabelledImage,
    classes: Sequence[str],
    *,
    sides: tuple[int, int],
    label: int | None = None,
    box: Sequence[float] | None = None,
    detected: Sequence[float] = (),
) -> Image.Image:
    """Draw objects with their masks and keypoints on uint8 [H, W, 3] pixels, named ones on top.

    Crowd regions are dashed.

    Args:
        pixels: of the image.
        image: its objects.
        classes: names of the label map.
        sides: minimum and maximum of the picture's longer side in pixels.
        label: only objects of this class are named; None: all.
        box: only the object with this box (ymin, xmin, ymax, xmax) is named and coloured; None: all.
        detected: box of a detection, drawn dashed; empty for none.
    """
    size = pixels.shape[0], pixels.shape[1]
    meant = [box is None or np.allclose(other, box, atol=1e-4) for other in image.boxes]
    boxes = [
        LabelledBox(
            box=box_of(corners),
            label=max(int(own), 0),
            text=classes[own] if is_meant and own >= 0 and label in (None, own) else "",
            dashed=bool(crowd),
            colour=None if is_meant else _NOT_MEANT,
            mask=_runs(mask, size),
            mask_size=size,
            keypoints=tuple((y, x) for y, x in points.tolist()),
        )
        for corners, own, is_meant, crowd, mask, points in zip(
            image.boxes,
            image.classes.tolist(),
            meant,
            image.is_crowd,
            image.masks or [b""] * len(image.boxes),
            image.keypoints,
            strict=True,
        )
    ]
    boxes.sort(key=lambda box: (not box.text, box.colour is not None))
    if detected:
        shown = LabelledBox(
            box=box_of(np.array(detected)), label=0, text="detected", dashed=True, colour=_DETECTED
        )
        boxes.append(shown)
    return draw_boxes(fit(pixels, smallest=sides[0], longest=sides[1]), boxes)


def _runs(png: bytes, size: tuple[int, int]) -> bytes:
    """Return a mask's PNG file as run lengths; b"" for none, or one without the image's rows and columns."""
    try:
        mask = decode_mask_file(png)
    except ImageFault:
        return b""
    return bytes(encode_masks([mask])[0]) if mask.shape == size else b""


_PICTURES_A_FINDING, _ALL_PICTURES = 6, 60
_MARKED = (320, 400)

_Place = tuple[str, int, tuple[float, ...], tuple[float, ...]]
"""A picture's split, record, marked box and detected box; a box is empty for none."""


def complete_examples(
    findings: Sequence[Finding], read: ReadRecords, classes: Sequence[str], folder: str
) -> list[Finding]:
    """Return the findings with ids for all examples; the first ones get pictures in `folder`/pictures."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for finding in findings:
        for example in finding.examples:
            for split, record, *_ in _places(example):
                wanted[split].add(record)
    drawn = [e for finding in findings for e in finding.examples[:_PICTURES_A_FINDING]]
    places = {place for example in drawn[:_ALL_PICTURES] for place in _places(example)}
    ids: dict[tuple[str, int], str] = {}
    pictures: dict[_Place, Image.Image] = {}
    for split, records in wanted.items():
        for image in read(split, records):
            ids[split, image.record] = image.source_id or image.filename
            here = [place for place in places if place[:2] == (split, image.record)]
            if here and (pixels := pixels_of(image)) is not None:
                for place in here:
                    pictures[place] = draw_image(
                        pixels, image, classes, sides=_MARKED, box=place[2] or None, detected=place[3]
                    )
    names = (f"{number:03d}.jpg" for number in itertools.count())
    return [
        dataclasses.replace(
            finding, examples=[_complete(e, ids, pictures, names, folder) for e in finding.examples]
        )
        for finding in findings
    ]


def _places(example: FoundExample) -> list[_Place]:
    here = (example.split, example.record, tuple(example.box or ()), tuple(example.detected or ()))
    return [here, *([(example.other.split, example.other.record, (), ())] if example.other else [])]


def _complete(
    example: FoundExample,
    ids: Mapping[tuple[str, int], str],
    pictures: Mapping[_Place, Image.Image],
    names: Iterator[str],
    folder: str,
) -> FoundExample:
    picture, other = "", example.other
    if shown := [pictures[place] for place in _places(example) if place in pictures]:
        picture = next(names)
        files.write_bytes(files.join(folder, FOLDER, picture), jpeg_bytes(_side_by_side(shown)))
    if other and (other.split, other.record) in ids:
        other = dataclasses.replace(other, source_id=ids[other.split, other.record])
    source_id = ids.get((example.split, example.record), example.source_id)
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
