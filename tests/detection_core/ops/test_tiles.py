"""Tiles of an image, and the merge of what a detector finds in them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.errors import ConfigError
from detection_core.ops.tile_options import TileOptions, parse_tiles, tile_options
from detection_core.ops.tiles import is_cut, merge_tiles, tile_windows

IMAGE = (300, 400)
WHOLE = (0, 0, *IMAGE)


@given(
    st.integers(1, 500),
    st.integers(1, 500),
    st.integers(1, 300),
    st.floats(0, 0.9),
)
@settings(max_examples=60, deadline=None)
def test_tiles_of_one_size_cover_every_pixel_and_overlap_by_the_fraction(height, width, size, overlap):
    options = TileOptions(size=size, overlap=overlap)
    windows = tile_windows(height, width, options) if height * width < size * size * 400 else None
    if windows is None:
        return
    seen = np.zeros((height, width), bool)
    for top, left, bottom, right in windows.tolist():
        assert 0 <= top < bottom <= height
        assert 0 <= left < right <= width
        assert (bottom - top, right - left) == (min(size, height), min(size, width))
        seen[top:bottom, left:right] = True
    assert seen.all()
    assert len(np.unique(windows, axis=0)) == len(windows)
    for side in (0, 1):
        starts = np.unique(windows[:, side])
        # An overlap of all but a part of a pixel still moves by one pixel.
        assert (np.diff(starts) <= max(1, size - round(size * overlap))).all()


def test_tiles_are_those_of_sahi():
    """sahi 0.11: get_slice_bboxes(300, 500, slice_height=200, slice_width=200, overlap ratios 0.25)."""
    found = tile_windows(300, 500, TileOptions(size=200, overlap=0.25))
    columns, rows = [(0, 200), (150, 350), (300, 500)], [(0, 200), (100, 300)]
    assert found.tolist() == [[top, left, bottom, right] for top, bottom in rows for left, right in columns]
    assert tile_windows(50, 60, TileOptions(size=64)).tolist() == [[0, 0, 50, 60]]


def test_options_are_checked():
    assert parse_tiles("") == {}
    assert tile_options({}) is None
    assert tile_options(parse_tiles("640")) == TileOptions(size=640)
    assert tile_options(parse_tiles("640:0.1")) == TileOptions(size=640, overlap=0.1)
    for text in ("x", "640:0.1:3", "nan", "640:1", "0", "640:-0.1", "12.5", "inf", ":0.2"):
        with pytest.raises(ConfigError, match="expected"):
            parse_tiles(text)
    for fields in ({"overlap": 0.2}, {"size": 3, "more": 1}, {"size": 3, "min_visibility": 2}, {"size": "3"}):
        with pytest.raises(ConfigError, match="expected"):
            tile_options(fields)


def views(objects, windows, share=0.0):
    """Return what a perfect detector finds: the visible part of each object, by rows of views."""
    boxes, numbers, places = [], [], []
    for place, window in enumerate(windows):
        for number, box in enumerate(objects):
            low, high = np.maximum(box[:2], window[:2]), np.minimum(box[2:], window[2:])
            if (high > low).all() and np.prod(high - low) >= share * np.prod(box[2:] - box[:2]):
                boxes.append([*low, *high])
                numbers.append(number)
                places.append(place)
    return np.array(boxes).reshape(-1, 4), np.array(numbers, int), np.array(windows)[places]


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_perfect_detector_gives_the_truth(seed, with_whole):
    rng = np.random.default_rng(seed)
    options = TileOptions(size=int(rng.integers(60, 140)), overlap=float(rng.uniform(0.2, 0.5)))
    # Without the whole image, objects are no larger than the overlap: each is whole in a tile.
    most = 250 if with_whole else int(options.size * options.overlap)
    sides = rng.integers(4, most, (8, 2))
    corners = rng.uniform(0, np.maximum(np.array(IMAGE) - sides, 1))
    objects = np.concatenate([corners, np.minimum(corners + sides, IMAGE)], axis=1)
    windows = tile_windows(*IMAGE, options)
    windows = np.concatenate([[WHOLE], windows]) if with_whole else windows
    boxes, numbers, of_window = views(objects, windows)
    # Views of one object have different scores; each object has another class.
    scores = rng.uniform(0.1, 1, len(boxes))
    merged = merge_tiles(boxes, scores, numbers, of_window, IMAGE)
    assert sorted(numbers[each.row] for each in merged) == list(range(len(objects)))
    for each in merged:
        np.testing.assert_allclose(each.box, objects[numbers[each.row]], atol=1e-9)
        assert each.score == scores[numbers == numbers[each.row]].max()
    assert [each.score for each in merged] == sorted((each.score for each in merged), reverse=True)


def test_objects_of_one_class_side_by_side_stay_apart():
    """A grid of touching squares of one class, each whole in a tile."""
    objects = np.array([(y, x, y + 20, x + 20) for y in range(0, 300, 20) for x in range(0, 400, 20)], float)
    windows = tile_windows(*IMAGE, TileOptions(size=100, overlap=0.25))
    boxes, _, of_window = views(objects, windows)
    scores = np.random.default_rng(0).uniform(0.1, 1, len(boxes))
    merged = merge_tiles(boxes, scores, np.zeros(len(boxes), int), of_window, IMAGE)
    found = sorted(tuple(each.box) for each in merged)
    assert found == sorted(map(tuple, objects))


def merge(rows, image=IMAGE):
    """Merge (box, score, window) of one class; return the boxes."""
    boxes, scores, windows = (np.array(column, float) for column in zip(*rows, strict=True))
    found = merge_tiles(boxes, scores, np.zeros(len(rows), int), windows.astype(int), image)
    return [(each.box.tolist(), each.score, each.parts) for each in found]


LEFT, RIGHT = (0, 0, 100, 100), (0, 80, 100, 180)


def test_parts_that_tiles_cut_are_joined():
    found = merge([((40, 50, 60, 100), 0.7, LEFT), ((40, 80, 60, 150), 0.9, RIGHT)])
    assert found == [([40, 50, 60, 150], 0.9, [1, 0])]
    # Three in a row, of which the best overlaps only with the middle one.
    third = ((40, 160, 60, 200), 0.8, (0, 160, 100, 260))
    chain = [((40, 50, 60, 100), 0.9, LEFT), ((40, 80, 60, 180), 0.5, RIGHT), third]
    assert merge(chain) == [([40, 50, 60, 200], 0.9, [0, 1, 2])]


def test_parts_of_different_objects_are_not_joined():
    """Two objects in line that only the common strip of the tiles keeps apart."""
    rows = [((0, 50, 20, 100), 0.7, LEFT), ((60, 80, 90, 150), 0.9, RIGHT)]
    assert sorted(box for box, _, _ in merge(rows)) == [[0, 50, 20, 100], [60, 80, 90, 150]]


def test_a_whole_view_replaces_a_part_of_higher_score():
    found = merge([((40, 50, 60, 100), 0.9, LEFT), ((40, 50, 60, 130), 0.4, WHOLE)])
    assert found == [([40, 50, 60, 130], 0.9, [1])]


def test_a_poor_view_of_a_part_is_dropped():
    """The part's box is too small to match the whole object's, but lies inside it."""
    found = merge([((40, 50, 60, 110), 0.9, WHOLE), ((50, 80, 55, 100), 0.4, LEFT)])
    assert found == [([40, 50, 60, 110], 0.9, [0])]


def test_a_small_object_in_front_of_a_large_one_is_kept():
    """Intersection over the smaller box would remove it, as both have one class."""
    rows = [((10, 10, 250, 250), 0.9, WHOLE), ((40, 40, 60, 60), 0.8, LEFT), ((40, 40, 60, 61), 0.3, WHOLE)]
    assert [box for box, _, _ in merge(rows)] == [[10, 10, 250, 250], [40, 40, 60, 60]]


def test_a_box_at_the_image_edge_is_not_cut():
    windows = np.array([LEFT, LEFT, LEFT, RIGHT])
    boxes = np.array([(0, 0, 30, 30), (20, 20, 40, 99), (20, 20, 40, 90), (20, 80, 40, 90)], float)
    assert is_cut(boxes, windows, (100, 180)).tolist() == [False, True, False, True]


def test_nothing_found_gives_nothing():
    nothing = np.zeros((0, 4))
    assert merge_tiles(nothing, np.zeros(0), np.zeros(0, int), nothing, IMAGE) == []
