import io
import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco_mask

from detection_core.datasets.annotated_images import AnnotatedObject, MaskFile, Polygons, Rejected, RunLengths
from detection_core.datasets.masks import encode_masks, has_area
from tests.support.cases import cases, refused

HEIGHT, WIDTH = 30, 40
SIZE = HEIGHT * WIDTH
COORDINATES = st.floats(-20, 60, width=32).map(lambda v: round(v, 2))
RINGS = st.lists(st.tuples(COORDINATES, COORDINATES), min_size=3, max_size=9)


def _object(mask, label="annotation 7"):
    return AnnotatedObject("cat", (0, 0, 1, 1), 0, 0, None, None, None, label, mask)


def _pixels(*masks, height=HEIGHT, width=WIDTH):
    pngs = encode_masks([_object(mask) for mask in masks], height, width)
    return [np.asarray(Image.open(io.BytesIO(data))) for data in pngs]


@settings(max_examples=200, deadline=None)
@example([[0, 0, 40, 0, 40, 30, 0, 30]])
@example([[1.5, 1.5, 5.5, 1.5, 5.5, 7.5], [3, 3, 30, 3, 30, 29, 3, 29]])
@given(st.lists(RINGS, min_size=1, max_size=3))
def test_polygons_are_filled_as_the_object_detection_api_fills_them(rings):
    flat = [[float(v) for v in np.ravel(ring)] for ring in rings]
    # create_coco_tf_record.py: every polygon filled alone, then the greatest of each pixel.
    expected = np.amax(coco_mask.decode(coco_mask.frPyObjects(flat, HEIGHT, WIDTH)), axis=2)
    triangle = [2.0, 2.0, 9.0, 2.0, 9.0, 9.0]
    first, _, again = _pixels(Polygons(flat), Polygons([triangle]), Polygons(flat))
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(again, expected)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_run_lengths_mean_the_same_packed_and_not(seed, coarse):
    mask = np.random.default_rng(seed).integers(0, 2, (HEIGHT, WIDTH), dtype=np.uint8)
    mask[: 2 * coarse] = seed % 2
    packed = coco_mask.encode(np.asfortranarray(mask))["counts"].decode()
    column = np.concatenate([[0], mask.T.ravel(), [2]])
    runs = np.diff(np.flatnonzero(np.diff(column)), prepend=0).tolist()
    plain = [0, *runs] if mask[0, 0] and runs[0] else runs
    for counts in (packed, plain):
        [found] = _pixels(RunLengths(HEIGHT, WIDTH, counts))
        np.testing.assert_array_equal(found, mask)


def test_runs_and_polygons_without_an_extent_cover_nothing():
    for counts in ([5, 3, 0, 2, SIZE - 10], [5, 3, 0, SIZE - 8], [SIZE, 0], [0, 0, 5, 5, SIZE - 10, 0, 0]):
        values = np.repeat(np.arange(len(counts)) % 2, counts)
        [found] = _pixels(RunLengths(HEIGHT, WIDTH, counts))
        np.testing.assert_array_equal(found, values.reshape(WIDTH, HEIGHT).T)
    line, full = [1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 9.0, 1.0, 9.0, 9.0]
    assert not any(has_area(Polygons(rings)) for rings in ([], [[]], [line]))
    with_line, alone, none = _pixels(Polygons([line, full]), Polygons([full]), None)
    np.testing.assert_array_equal(with_line, alone)
    assert alone.any() and not none.any()


def _runs(counts):
    return RunLengths(HEIGHT, WIDTH, counts)


# Odd, not finite or far away; of too few, too many or no numbers, of sums that wrap round; cut, endless or
# of other characters.
@cases(
    *(Polygons([[1, 1, 5, 1, 5, *rest]]) for rest in ([5, 1], [math.nan], [math.inf], [1e12])),
    *map(_runs, ([5, 5], [5, SIZE], [-5, SIZE + 5], [2**70, 5], [2**63 - 1, 2**63 - 1, SIZE + 2])),
    *map(_runs, ([0.5, SIZE - 0.5], ["5", "7"], "", "0 1~", "0ä", "0oooo", "o" * 18 + "0", "55", "O5")),
    RunLengths(WIDTH, HEIGHT, [SIZE]),
)
def test_a_mask_that_cannot_be_is_refused_by_the_name_of_its_object(*, mask):
    objects = [_object(_runs([SIZE])), _object(mask, "annotation 9")]
    error = refused(Rejected, "annotation 9: expected", encode_masks, objects, HEIGHT, WIDTH)
    assert error.reason == "malformed_mask"


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(min_codepoint=40, max_codepoint=115), max_size=30))
def test_any_text_in_the_place_of_run_lengths_is_a_mask_or_refused(text):
    try:
        [found] = _pixels(RunLengths(2, 3, text), height=2, width=3)
    except Rejected as e:
        assert e.reason == "malformed_mask"
    else:
        assert found.shape == (2, 3)


def test_mask_files_are_stretched_or_refused(tmp_path):
    small = np.zeros((15, 20), np.uint8)
    small[3:7, 5:10] = 255
    for mode in ("L", "1", "P", "RGB", "RGBA"):
        Image.fromarray(small).convert(mode).save(tmp_path / f"{mode}.png")
        [found] = _pixels(MaskFile(str(tmp_path / f"{mode}.png")))
        np.testing.assert_array_equal(found, np.kron(small > 0, np.ones((2, 2))))
    (tmp_path / "text.png").write_text("not an image")
    for path in (tmp_path / "text.png", tmp_path / "nothing.png", tmp_path):
        refused(Rejected, "annotation 7: expected a mask", _pixels, MaskFile(str(path)))
