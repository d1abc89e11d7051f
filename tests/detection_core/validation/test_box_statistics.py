"""Sums of boxes by class, size, aspect and place."""

import numpy as np

from detection_core.validation.box_statistics import (
    ASPECTS,
    COUNTS,
    GRID,
    PIXELS,
    SIZES,
    SampleCounter,
    add_up,
    counts_by_bin,
)
from detection_core.validation.labelled_images import parse_record
from tests.detection_core.validation.samples import LABELS, labelled
from tests.support.made_examples import CLASSES, Made, encode


def _images(count, seed=0):
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        objects = int(random.integers(0, 7))
        corners = random.uniform(0, 0.6, (objects, 2))
        sides = random.uniform(0.005, 0.4, (objects, 2))
        boxes = tuple(map(tuple, np.concatenate([corners, corners + sides], axis=1).astype(np.float32)))
        classes = tuple(random.choice(CLASSES, objects))
        crowd = tuple(int(c) for c in random.integers(0, 6, objects) == 0)
        size = (int(random.integers(20, 90)), int(random.integers(20, 90)))
        made.append(Made(picture=1, boxes=boxes, classes=classes, crowd=crowd, size=size))
    return [labelled(n, m) for n, m in enumerate(made)]


def _bin(edges, value):
    return sum(value >= edge for edge in edges)


def _by_loops(images, name, bins, pick):
    """Sums of one histogram as their names say, one object after the other."""
    sums = {field: [0] * bins for field in ("counts", "squares", "products", "images")}
    total_squares = 0
    for image in images:
        x = [0] * bins
        for row, label, crowd in zip(image.boxes, image.classes, image.is_crowd, strict=True):
            if not crowd:
                x[pick(image, row, label)] += 1
        n = sum(x)
        total_squares += n * n
        for i, count in enumerate(x):
            sums["counts"][i] += count
            sums["squares"][i] += count * count
            sums["products"][i] += count * n
            sums["images"][i] += count > 0
    return sums, total_squares


_PICKS = {
    "class": (2, lambda image, box, label: label),
    "size": (len(SIZES) + 1, lambda i, b, _: _bin(SIZES, np.sqrt((b[2] - b[0]) * (b[3] - b[1])))),
    "aspect": (
        len(ASPECTS) + 1,
        lambda i, b, _: _bin(ASPECTS, ((b[3] - b[1]) * i.width) / ((b[2] - b[0]) * i.height)),
    ),
    "place": (
        GRID * GRID,
        lambda i, b, _: int((b[0] + b[2]) / 2 * GRID) * GRID + int((b[1] + b[3]) / 2 * GRID),
    ),
}


def test_the_sums_are_those_of_a_loop_over_objects():
    images = _images(700)  # more than are counted at once
    counter = SampleCounter(CLASSES)
    for image in images:
        counter.add(image)
    found = counter.statistics()
    kept = [int((~image.is_crowd).sum()) for image in images]
    assert (found.images, found.objects, found.empty_images) == (700, sum(kept), kept.count(0))
    for name, (bins, pick) in _PICKS.items():
        histogram = found.histograms[name]
        sums, total_squares = _by_loops(images, name, bins, pick)
        assert {field: getattr(histogram, field) for field in sums} == sums, name
        assert histogram.total_squares == total_squares and len(histogram.bins) == bins
    by_count = [0] * (len(COUNTS) + 1)
    by_size = [0] * (len(PIXELS) + 1)
    for image, count in zip(images, kept, strict=True):
        by_count[_bin(COUNTS, count)] += 1
        by_size[_bin(PIXELS, np.sqrt(image.height * image.width))] += 1
    assert found.histograms["objects of an image"].counts == by_count
    assert found.histograms["image size"].counts == by_size


def test_parts_add_up_to_the_whole_and_odd_images_break_nothing():
    images = _images(60)
    parts = []
    for chosen in (images[:17], images[17:]):
        counter = SampleCounter(CLASSES)
        for image in chosen:
            counter.add(image)
        parts.append(counter.statistics())
    whole = SampleCounter(CLASSES)
    for image in images:
        whole.add(image)
    assert add_up(parts) == whole.statistics()
    assert add_up([]).images == 0
    other = SampleCounter(["dog", "cow"]).statistics()
    assert list(counts_by_bin(add_up([parts[0], other]), "class")) == ["cat", "dog", "cow"]
    record = encode(Made(classes=("cow",), size=(1, 5000)), 0, ("cow",))
    counter = SampleCounter(CLASSES)
    counter.add(parse_record(record, 0, LABELS))
    found = counter.statistics()
    assert counts_by_bin(found, "class") == {"cat": 0, "dog": 0} and found.objects == 1
