import io
import math
import time

import numpy as np
import pytest
from PIL import Image

from detection_core.datasets.annotated_images import AnnotatedImage, AnnotatedObject
from detection_core.evaluation.drawing import class_colour
from pipeline.init import sample_grid
from pipeline.init.sample_grid import CELL, COLUMNS, draw_sample_grid
from tests.support.dataset_files import picture, png_that_claims


def annotated(path, *, size=(40, 30), boxes=((4, 6, 20, 24),), name="cat", **flags):
    known = {"crowd": 0, "difficult": None, "truncated": None, "pose": None, "label": ""}
    objects = [AnnotatedObject(name=name, box=box, area=0.0, **{**known, **flags}) for box in boxes]
    return AnnotatedImage("id", str(path), str(path), *size, objects)


def write(path, size, *, turned=False):
    exif = Image.Exif()
    exif[0x0112] = 6 if turned else 1
    Image.new("RGB", size, (90, 90, 90)).save(path, exif=exif)
    return path


@pytest.fixture
def small(tmp_path):
    (tmp_path / "x.jpg").write_bytes(picture())
    return tmp_path / "x.jpg"


def drawn(images, classes=("cat", "dog")):
    return np.asarray(Image.open(io.BytesIO(draw_sample_grid(images, classes))))


def test_boxes_are_drawn_where_they_are_in_the_colour_of_their_class(tmp_path):
    path = write(tmp_path / "grey.png", (400, 300))
    sheet = drawn([annotated(path, size=(400, 300), boxes=((100, 60, 300, 240),), name="dog")])
    rows, columns = np.nonzero((sheet[:270] == class_colour(1)).all(axis=-1))
    scale = CELL / 400
    assert abs(rows.max() - rows.min() - 180 * scale) <= 22  # with the name above it
    assert abs(columns.max() - columns.min() - 200 * scale) <= 4
    assert abs(columns.min() - 6 - 100 * scale) <= 4
    in_pixels = annotated(path, size=(400, 300), boxes=((100, 60, 300, 240),))
    in_fractions = annotated(path, size=(0, 0), boxes=((0.25, 0.2, 0.75, 0.8),))._replace(in_fractions=True)
    np.testing.assert_array_equal(drawn([in_pixels]), drawn([in_fractions]))


def test_pictures_are_laid_in_rows_and_those_that_cannot_be_read_are_left_out(tmp_path):
    paths = [tmp_path / f"{n}.jpg" for n in range(COLUMNS + 1)]
    for n, path in enumerate(paths):
        path.write_bytes(picture(seed=n))
    sheet = drawn([annotated(path) for path in paths])
    assert COLUMNS * CELL < sheet.shape[1] < (COLUMNS + 1) * CELL
    bomb, nothing, good = (tmp_path / name for name in ("bomb.png", "nothing.jpg", "good.jpg"))
    bomb.write_bytes(png_that_claims(60_000, 60_000))
    nothing.write_bytes(b"x")
    bad = [annotated(path) for path in (bomb, nothing, tmp_path / "missing.jpg")]
    assert draw_sample_grid(bad, ["cat"]) is None
    good.write_bytes(picture())
    assert drawn([*bad, annotated(good)]).shape[1] < 2 * CELL


def test_a_picture_lies_as_its_boxes_do_even_where_annotations_do_not_say_how_large_it_is(tmp_path):
    path = write(tmp_path / "turned.jpg", (400, 200), turned=True)
    upright = drawn([annotated(path, size=(200, 400))])
    as_stored = drawn([annotated(path, size=(400, 200))])
    assert upright.shape[0] > CELL and as_stored.shape[0] < CELL
    for turned in (False, True):
        path = write(tmp_path / "large.jpg", (1200, 1600) if turned else (1600, 1200), turned=turned)
        known = annotated(path, size=(1600, 1200), boxes=((400, 240, 1200, 960),), name="")
        assert (drawn([known._replace(width=0, height=0)]) == drawn([known])).all()
    path = write(tmp_path / "turned.jpg", (200, 400), turned=True)  # 400 x 200 when turned
    image = annotated(path, size=(0, 0), boxes=((0.25, 0.2, 0.75, 0.8),), name="")
    known = annotated(path, size=(400, 200), boxes=((100, 40, 300, 160),), name="")
    assert (drawn([image._replace(in_fractions=True)]) == drawn([known])).all()


def test_names_of_any_kind_are_written_and_many_objects_are_soon_drawn(small):
    names = ["a\nb", "\u202ex", "", "é" * 200, "\ud800"]
    image = annotated(small, name="a\nb", crowd=1)._replace(filename="a\n\ud800.jpg", width=0, height=0)
    assert drawn([image], names * 20).size
    crowded = annotated(small, boxes=((4, 6, 20, 24),) * 20_000)
    named = annotated(small, name="n" * 1_000_000, boxes=((math.nan, 1, math.inf, 2), (1, 1, 1e300, 9)))
    sized = annotated(small, size=(10**400, 10**400))
    began = time.process_time()
    assert drawn([crowded, named, sized]).size
    assert time.process_time() - began < 5


def test_no_more_pictures_are_decoded_than_memory_and_time_allow(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_grid, "_DECODED_PIXELS", 2 * 3_000 * 2_000)
    paths = [tmp_path / f"{n}.png" for n in range(3)]
    for path in paths:
        write(path, (3_000, 2_000))
    sheet = drawn([annotated(path, size=(3_000, 2_000)) for path in paths])
    assert 2 * CELL < sheet.shape[1] < 3 * CELL
