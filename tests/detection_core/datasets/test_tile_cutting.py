"""Examples that are cut into tiles."""

import dataclasses
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tensorflow.core.example.example_pb2 import Example

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    ImageLabel,
    Polygons,
    Rejected,
)
from detection_core.datasets.classes import make_layout
from detection_core.datasets.encoding import make_example
from detection_core.datasets.masks import decode_mask_file
from detection_core.datasets.tile_cutting import cut_objects, tile_examples
from detection_core.ops.tile_options import TileOptions
from detection_core.ops.tiles import tile_windows

LABELS = {"cat": 1, "dog": 2}
HEIGHT, WIDTH = 90, 120
OPTIONS = TileOptions(size=60, overlap=0.25, min_visibility=0.3)


def write(folder, objects, image_format="PNG", **fields):
    """Write a picture of noise; return it as a record, and its pixels."""
    pixels = np.random.default_rng(3).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    path = folder / f"a.{image_format.lower()}"
    Image.fromarray(pixels).save(path, image_format)
    return AnnotatedImage("a", path.name, str(path), WIDTH, HEIGHT, objects, **fields), pixels


def features_of(data):
    """Return the values of each feature of a serialised example."""
    features = Example.FromString(data).features.feature
    return {key: list(getattr(one, one.WhichOneof("kind")).value) for key, one in features.items()}


def cut(record, options=OPTIONS, keypoints=None):
    """Return the features of each tile by its id, and those of the whole image."""
    layout = make_layout(keypoints or {})
    example = make_example(record, LABELS, keypoints=layout)
    found = {}
    for one in tile_examples(example, record, LABELS, layout, options):
        values = features_of(one.data)
        assert values["image/source_id"] == [one.image.source_id.encode()]
        found[one.image.source_id] = values
    return found


def pixels_of(features):
    return np.asarray(Image.open(io.BytesIO(features["image/encoded"][0])))


def boxes_of(features):
    """Return boxes (xmin, ymin, xmax, ymax) in pixels of a tile."""
    (height,), (width,) = features["image/height"], features["image/width"]
    sides = [features.get(f"image/object/bbox/{name}", []) for name in ("xmin", "ymin", "xmax", "ymax")]
    return np.array(sides).T * (width, height, width, height)


boxes = st.tuples(st.floats(0, 110), st.floats(0, 80), st.floats(1, 60), st.floats(1, 60)).map(
    lambda b: (b[0], b[1], min(b[0] + b[2], WIDTH), min(b[1] + b[3], HEIGHT))
)


@given(st.lists(boxes, max_size=6), st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_parts_shifted_back_are_the_boxes_cut_off_at_the_tile(found, least):
    objects = [AnnotatedObject("cat", box, area=50.0) for box in found]
    kept = set()
    for top, left, bottom, right in tile_windows(HEIGHT, WIDTH, OPTIONS).tolist():
        parts = cut_objects(objects, found, (top, left, bottom, right), least)
        for number, (xmin, ymin, xmax, ymax) in enumerate(found):
            low, high = (max(xmin, left), max(ymin, top)), (min(xmax, right), min(ymax, bottom))
            seen = max(high[0] - low[0], 0) * max(high[1] - low[1], 0)
            share = seen / ((xmax - xmin) * (ymax - ymin)) if high[0] > low[0] and high[1] > low[1] else 0
            if number not in parts:
                assert share < least or not seen
                continue
            part = parts[number]
            back = np.add(part.box, (left, top, left, top))
            np.testing.assert_allclose(back, (*low, *high), atol=1e-9)
            assert part.area == pytest.approx(50 * share)
            assert (part.crowd, part.weight) == ((0, None) if share >= least else (1, 0.0))
            if share >= least:
                kept.add(number)
    for number, (xmin, ymin, xmax, ymax) in enumerate(found):
        if xmax - xmin <= 15 and ymax - ymin <= 15:  # as large as the overlap: whole in a tile
            assert number in kept


def test_tiles_have_the_pixels_the_place_in_their_id_and_every_field(tmp_path):
    whole = AnnotatedObject(
        "dog", (50, 10, 58, 20), area=60.0, difficult=1, truncated=0, pose="Left", confidence=0.5, label="1"
    )
    sliver = AnnotatedObject("cat", (56, 30, 80, 50), difficult=0, truncated=0)
    crowd = AnnotatedObject("cat", (40, 0, 120, 90), crowd=1)
    record, pixels = write(tmp_path, [whole, sliver, crowd])
    found = cut(record)
    # 60 pixels with 15 in common: columns from 0, 45 and 60; rows from 0 and 30.
    places = [f"a@{left},{top}" for top in (0, 30) for left in (0, 45, 60)]
    assert list(found) == [*places, "a"]
    for name in places:
        left, top = map(int, name.removeprefix("a@").split(","))
        np.testing.assert_array_equal(pixels_of(found[name]), pixels[top : top + 60, left : left + 60])
    first = found["a@0,0"]
    np.testing.assert_allclose(
        boxes_of(first), [(50, 10, 58, 20), (56, 30, 60, 50), (40, 0, 60, 60)], atol=1e-5
    )
    assert first["image/object/class/text"] == [b"dog", b"cat", b"cat"]
    assert first["image/object/difficult"] == [1, 0, 0]
    assert first["image/object/truncated"] == [0, 1, 0]
    assert first["image/object/view"] == [b"Left", b"", b""]
    assert first["image/object/class/confidence"] == [0.5, 1, 1]
    assert first["image/object/area"] == pytest.approx([60, 80, 1200])
    # A sixth of the cat is visible: ignored, as a crowd of weight 0. The real crowd stays what it is.
    assert first["image/object/is_crowd"] == [0, 1, 1]
    assert first["image/object/weight"] == [1, 0, 1]
    assert found["a@60,30"]["image/object/class/text"] == [b"cat", b"cat"]
    assert "image/object/weight" not in found["a"]


def test_an_image_no_larger_than_a_tile_stays_as_it_is(tmp_path):
    record, _ = write(tmp_path, [AnnotatedObject("cat", (1, 2, 30, 40))])
    example = make_example(record, LABELS)
    assert list(tile_examples(example, record, LABELS, None, TileOptions(size=120))) == [example]


def test_jpeg_tiles_keep_the_quality_of_the_image(tmp_path):
    record, _ = write(tmp_path, [], "JPEG")
    found = cut(record)
    decoded = pixels_of(found["a"]).astype(int)
    tile = found["a@45,30"]
    assert tile["image/format"] == [b"jpeg"]
    assert (
        Image.open(io.BytesIO(tile["image/encoded"][0])).quantization == Image.open(record.path).quantization
    )
    # Noise is the hardest picture; blocks of 8 pixels begin elsewhere in the tile.
    assert np.abs(pixels_of(tile) - decoded[30:90, 45:105]).mean() < 20
    assert not boxes_of(tile).size


def test_masks_and_keypoints_are_cut(tmp_path):
    triangle = Polygons([[40, 10, 80, 10, 40, 50]])
    corner = Polygons([[62, 0, 70, 0, 70, 40, 62, 40]])
    points = [(42, 12, 2), (78, 12, 1), (0, 0, 0), (60, 60, 1), (45, 0, 1)]
    objects = [
        AnnotatedObject("cat", (40, 10, 80, 50), mask=triangle, keypoints=points),
        AnnotatedObject("dog", (10, 0, 70, 40), mask=corner),
        AnnotatedObject("dog", (45, 45, 55, 55)),
    ]
    record, _ = write(tmp_path, objects)
    found = cut(record, keypoints={"cat": ["nose", "tail", "ear", "paw", "tip"]})
    whole = [decode_mask_file(png) for png in found["a"]["image/object/mask"]]
    for name, features in found.items():
        if name != "a" and "image/object/mask" in features:
            left, top = map(int, name.removeprefix("a@").split(","))
            rows = [LABELS["cat"], LABELS["dog"], LABELS["dog"]]
            assert features["image/object/class/label"] == rows[: len(features["image/object/mask"])]
            for mask, png in zip(whole, features["image/object/mask"], strict=False):
                np.testing.assert_array_equal(decode_mask_file(png), mask[top : top + 60, left : left + 60])
    first = found["a@0,0"]
    # The first dog's box is in the tile, but none of its pixels; the second has no mask.
    assert first["image/object/mask/weight"] == [1, 0, 0]
    assert first["image/object/is_crowd"] == [0, 1, 0]
    assert first["image/object/weight"] == [1, 0, 1]
    # A tile's first and last columns and rows are in it.
    assert first["image/object/keypoint/visibility"] == [2, 0, 0, 1, 1] + [0] * 10
    second = found["a@45,0"]
    assert second["image/object/keypoint/visibility"][:5] == [0, 1, 0, 1, 1]
    np.testing.assert_allclose(second["image/object/keypoint/x"][1] * 60, 78 - 45, atol=1e-5)


def test_labels_of_an_image_hold_for_its_tiles_only_if_they_can(tmp_path):
    labels = (ImageLabel("cat"), ImageLabel("dog", 0.0))
    record, _ = write(tmp_path, [AnnotatedObject("cat", (1, 1, 9, 9))], labels=labels)
    found = cut(record)
    assert found["a@0,0"]["image/class/text"] == [b"cat", b"dog"]
    assert found["a@60,30"]["image/class/text"] == [b"dog"]


def test_an_image_that_cannot_be_decoded_is_rejected(tmp_path):
    record, _ = write(tmp_path, [])
    example = make_example(record, LABELS)
    damaged = dataclasses.replace(example.image, data=example.image.data[:3000])
    example = dataclasses.replace(example, image=damaged)
    with pytest.raises(Rejected):
        list(tile_examples(example, record, LABELS, None, OPTIONS))
