import collections

import numpy as np

from detection_core.validation import box_statistics
from detection_core.validation.box_statistics import (
    ASPECTS,
    GRID,
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


def _side(box, axis):
    return box[2 + axis] - box[axis]


def _aspect(image, box):
    return _side(box, 1) / _side(box, 0) * image.width / image.height


def _cell(box, axis):
    return int((box[axis] + box[2 + axis]) / 2 * GRID)


_PICKS = {
    "class": (2, lambda image, box, label: label),
    "size": (len(SIZES) + 1, lambda i, b, _: _bin(SIZES, np.sqrt(_side(b, 0) * _side(b, 1)))),
    "aspect": (
        len(ASPECTS) + 1,
        lambda i, b, _: _bin(ASPECTS, _side(b, 1) * i.width / _side(b, 0) / i.height),
    ),
    "place": (GRID * GRID, lambda i, b, _: _cell(b, 0) * GRID + _cell(b, 1)),
}


def _by_loops(images, bins, pick):
    """Sums of one histogram as their names say, one object after the other."""
    sums = {field: [0] * bins for field in ("counts", "squares", "products", "images")}
    sums["total_squares"] = 0
    for image in images:
        x = [0] * bins
        for row, label, crowd in zip(image.boxes, image.classes, image.is_crowd, strict=True):
            x[pick(image, row, label)] += not crowd
        sums["total_squares"] += sum(x) ** 2
        for i, count in enumerate(x):
            sums["counts"][i] += count
            sums["squares"][i] += count * count
            sums["products"][i] += count * sum(x)
            sums["images"][i] += count > 0
    return sums


def _counted(images):
    counter = SampleCounter(CLASSES)
    for image in images:
        counter.add(image)
    return counter.statistics()


def test_the_sums_are_those_of_a_loop_and_parts_add_up_to_the_whole():
    images = _images(700)  # more than are counted at once
    found = _counted(images)
    kept = [int((~image.is_crowd).sum()) for image in images]
    assert (found.images, found.objects, found.empty_images) == (700, sum(kept), kept.count(0))
    for name, (bins, pick) in _PICKS.items():
        histogram, sums = found.histograms[name], _by_loops(images, bins, pick)
        assert {field: getattr(histogram, field) for field in sums} == sums, name
        assert len(histogram.bins) == bins
    sides = [np.sqrt(i.height * i.width) for i in images]
    for name, values, edges in (
        ("objects of an image", kept, box_statistics.COUNTS),
        ("image size", sides, box_statistics.PIXELS),
    ):
        counts = collections.Counter(_bin(edges, value) for value in values)
        assert found.histograms[name].counts == [counts[i] for i in range(len(edges) + 1)]
    images = _images(60)
    parts = [_counted(images[:17]), _counted(images[17:])]
    assert add_up(parts) == _counted(images)
    assert add_up([]).images == 0
    other = SampleCounter(["dog", "cow"]).statistics()
    assert list(counts_by_bin(add_up([parts[0], other]), "class")) == ["cat", "dog", "cow"]
    record = encode(Made(classes=("cow",), size=(1, 5000)), 0, ("cow",))
    found = _counted([parse_record(record, 0, LABELS)])
    assert counts_by_bin(found, "class") == {"cat": 0, "dog": 0} and found.objects == 1
