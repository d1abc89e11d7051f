import json
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets.box_counter import ASPECTS, GRID, PER_IMAGE, SIDES, SIDES_PX, BoxCounter

_SIDE, _BOXES = st.integers(8, 300), st.lists(st.tuples(*[st.floats(0, 1)] * 4), max_size=5)
IMAGES = st.lists(st.tuples(_SIDE, _SIDE, _BOXES), max_size=8)


def counted(images):
    counter = BoxCounter()
    for width, height, boxes in images:
        counter.add(boxes, width, height)
    return counter


def in_pixels(drawn):
    images = []
    for width, height, boxes in drawn:
        pixels = []
        for a, b, c, d in boxes:
            box = (min(a, c) * width, min(b, d) * height, max(a, c) * width, max(b, d) * height)
            if box[2] - box[0] > 0.01 and box[3] - box[1] > 0.01:
                pixels.append(box)
        images.append((width, height, pixels))
    return images


def slot(value, up_to):
    return next((i for i, edge in enumerate(up_to) if value <= edge), len(up_to) - 1)


def by_looping(images):
    """The definitions, box by box and cell by cell."""
    shapes = {"sizes": (len(SIDES), len(SIDES)), "centres": (GRID, GRID), "coverage": (GRID, GRID)}
    shapes |= {"aspects": len(ASPECTS), "sides_px": len(SIDES_PX), "per_image": len(PER_IMAGE)}
    tables = {name: np.zeros(shape, int) for name, shape in shapes.items()}
    for width, height, boxes in images:
        tables["per_image"][slot(len(boxes), PER_IMAGE)] += 1
        for xmin, ymin, xmax, ymax in boxes:
            w, h = xmax - xmin, ymax - ymin
            tables["sizes"][slot(h / height, SIDES), slot(w / width, SIDES)] += 1
            tables["aspects"][slot(w / h, ASPECTS)] += 1
            tables["sides_px"][slot(math.sqrt(w * h), SIDES_PX)] += 1
            row, column = ((ymin + ymax) / 2 / height * GRID, (xmin + xmax) / 2 / width * GRID)
            tables["centres"][min(int(row), GRID - 1), min(int(column), GRID - 1)] += 1
            for i in range(GRID):
                for j in range(GRID):
                    y, x = (i + 0.5) / GRID * height, (j + 0.5) / GRID * width
                    tables["coverage"][i, j] += ymin <= y < ymax and xmin <= x < xmax
    return tables


@settings(max_examples=60, deadline=None)
@given(drawn=IMAGES)
def test_counts_are_what_the_definitions_say(drawn):
    images = in_pixels(drawn)
    profile, expected = counted(images).profile(), by_looping(images)
    assert profile.boxes == sum(len(boxes) for _, _, boxes in images)
    for name in ("sizes", "aspects", "sides_px", "per_image"):
        assert getattr(profile, name).counts == expected[name].tolist(), name
    assert profile.centres == expected["centres"].tolist()
    # A middle on the very edge of a box may fall to either side by a rounding error.
    assert np.abs(np.array(profile.coverage) - expected["coverage"]).sum() <= 1


@settings(max_examples=30, deadline=None)
@given(drawn=IMAGES, at=st.integers(0, 8))
def test_parts_add_up_to_the_whole_also_when_they_travelled_as_json(drawn, at):
    images = in_pixels(drawn)
    first, second = counted(images[:at]), counted(images[at:])
    total = BoxCounter(json.loads(json.dumps(second.state())))
    total.merge(first)
    assert total.profile() == counted(images).profile()


def test_what_is_counted_does_not_wait_in_memory_and_outer_bins_have_what_lies_outside():
    for images in (1, 5000):
        counter = counted([(100, 50, [(10.0, 10.0, 30.0, 20.0)])] * images)
        assert len(counter._boxes) <= 4096
        assert counter.profile().boxes == counter.profile().per_image.counts[1] == images
    profile = counted([(10_000, 10_000, [(0.0, 0.0, 10_000.0, 10_000.0), (1.0, 1.0, 2.0, 9999.0)])]).profile()
    assert profile.sizes.counts[-1][-1] == profile.sides_px.counts[-1] == 1
    assert profile.aspects.counts[0] == profile.coverage[0][0] == 1
