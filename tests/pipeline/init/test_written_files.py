"""What `detflow init` writes: settings, a sheet of samples, unpacked data."""

import io
import math
import os
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from PIL import Image

from detection_core.datasets.annotated_images import (
    AnnotatedImage,
    AnnotatedObject,
    MaskFile,
    Polygons,
    RunLengths,
)
from detection_core.errors import ConfigError, DataError
from detection_core.evaluation.drawing import class_colour
from detection_core.zoo.fine_tuning import Choice
from pipeline.init import sample_grid
from pipeline.init.documents import choice_comment, format_settings_file
from pipeline.init.sample_grid import CELL, COLUMNS, draw_sample_grid
from pipeline.init.unpacked_data import unpacked
from pipeline.init.written_files import RECORD, write_unchanged
from tests.support.cases import refused
from tests.support.dataset_files import picture, png_that_claims
from tests.support.storage_faults import KILLED, killed_at, watched

CONTENTS = {"a.yaml": b"a", "b.config": b"b"}


def contents_of(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder) if name != RECORD}


def test_files_are_written_and_written_again(tmp_path):
    folder = tmp_path / "new" / "folder"
    write_unchanged(str(folder), CONTENTS)
    assert contents_of(folder) == CONTENTS
    write_unchanged(str(folder), {"a.yaml": b"other", "c.png": b"c"})
    assert contents_of(folder) == {"a.yaml": b"other", "b.config": b"b", "c.png": b"c"}
    write_unchanged(str(folder), CONTENTS)
    assert contents_of(folder) == {**CONTENTS, "c.png": b"c"}
    refused(ConfigError, "expected a folder on this machine", write_unchanged, "s3://bucket/x", CONTENTS)


def replaced(folder):
    (folder / "b.config").unlink()
    return folder / "b.config"


DAMAGE = {
    "changed": lambda folder: (folder / "b.config").write_bytes(b"better"),
    "foreign": lambda folder: [(folder / name).unlink() for name in (RECORD, "a.yaml")],
    "link": lambda folder: replaced(folder).symlink_to(folder.parent / "elsewhere"),
    "folder": lambda folder: replaced(folder).mkdir(),
    "record": lambda folder: (folder / RECORD).write_text('{"files": ['),
    "no record": lambda folder: (folder / RECORD).unlink(),
}


def test_what_somebody_changed_is_left_alone_with_all_the_rest(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"b")
    for name, damage in DAMAGE.items():
        folder = tmp_path / name
        write_unchanged(str(folder), CONTENTS)
        damage(folder)
        before = {name: os.lstat(folder / name).st_mtime_ns for name in os.listdir(folder)}
        with pytest.raises(ConfigError, match=r"b\.config.*name another folder with -o") as caught:
            write_unchanged(str(folder), {"a.yaml": b"new", "b.config": b"new"})
        assert caught.value.where == str(folder)
        assert {name: os.lstat(folder / name).st_mtime_ns for name in os.listdir(folder)} == before


@pytest.mark.parametrize("there", [False, True], ids=["new", "written before"])
def test_an_init_that_was_killed_is_repeated(tmp_path, there):
    """At each change of the disk: files are whole, and the next one writes them all."""
    new = {name: content * 100 for name, content in CONTENTS.items()} | {"c.png": b"c"}
    for number in range(1, 100):
        folder = tmp_path / str(number)
        if there:
            write_unchanged(str(folder), CONTENTS)
        try:
            with watched(killed_at(number)):
                write_unchanged(str(folder), new)
            break
        except KILLED:
            old = CONTENTS if there else {}
            left = contents_of(folder) if folder.exists() else {}
            whole = {name: content for name, content in left.items() if not name.endswith(".partial")}
            assert all(content in (old.get(name), new[name]) for name, content in whole.items())
        write_unchanged(str(folder), new)
        assert {**contents_of(folder), **new} == contents_of(folder)
    assert number > 5


class Writing(RuleBasedStateMachine):
    """Repeats, kills in the middle, and a user who edits, removes and adds files."""

    names = st.sampled_from(["a", "b", "c"])

    def __init__(self):
        super().__init__()
        self.root = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.root.name, "mine")
        self.of_user = {}  # what the user wrote last, which must stay
        self.version = 0

    @rule(kill_at=st.integers(1, 20))
    def write(self, kill_at):
        self.version += 1
        new = {name: f"{name}{self.version}".encode() for name in "abc"}
        try:
            with watched(killed_at(kill_at)):
                write_unchanged(self.folder, new)
        except KILLED:
            return
        except ConfigError as error:
            assert self.of_user and any(name in error.message for name in self.of_user)
            return
        assert not self.of_user
        for name, content in new.items():
            assert Path(self.folder, name).read_bytes() == content

    @rule(name=names)
    def edit(self, name):
        self.version += 1
        os.makedirs(self.folder, exist_ok=True)
        self.of_user[name] = f"user{self.version}".encode()
        Path(self.folder, name).write_bytes(self.of_user[name])

    @rule(name=names)
    def remove(self, name):
        self.of_user.pop(name, None)
        Path(self.folder, name).unlink(missing_ok=True)

    @invariant()
    def what_the_user_wrote_stays(self):
        for name, content in self.of_user.items():
            assert Path(self.folder, name).read_bytes() == content

    def teardown(self):
        self.root.cleanup()


TestWriting = Writing.TestCase
TestWriting.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


HOSTILE = ["a: b", "#x", "- x", "{SPAN}", "yes", "3", "", "a\nb", "\u2028é", '"', "null", "*a", "x" * 300]


def choice(path, value, reason="", source=""):
    return Choice(path=path, value=value, reason=reason, source=source)


def test_the_text_holds_what_was_chosen_with_long_mappings_on_lines_of_their_own_and_papers():
    for value in (*HOSTILE, 3, 0.5, ["a", "b"], {"train": 0.8, "eval": 0.2}, {"a": {"b": "c: d"}}):
        choices = [choice("name", "x"), choice("data.path", value, f"of {value}")]
        text = format_settings_file(["first"], choices)
        assert yaml.safe_load(text) == {"name": "x", "data": {"path": value}}
        assert text.startswith("# first\nname: x\n\ndata:\n  # of")
    long = {f"train_config.optimizer.momentum_optimizer.field_{i}": i for i in range(4)}
    text = format_settings_file([], [choice("quantize.overrides", long), choice("quantize.enabled", True)])
    assert yaml.safe_load(text) == {"quantize": {"overrides": long, "enabled": True}}
    assert "\n    train_config.optimizer.momentum_optimizer.field_2: 2\n" in text
    assert text.count("quantize:") == 1
    paper = "https://arxiv.org/abs/1811.08883"
    assert choice_comment(choice("a", 1, "many epochs", paper)) == f"many epochs ({paper})"
    assert choice_comment(choice("a", 1, "many epochs", "the caller")) == "many epochs"
    assert choice_comment(choice("a", 1, "", paper)) == ""


def _zip(path, text):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("set/a.txt", text)
    return str(path)


def test_an_archive_is_unpacked_once_and_what_is_no_data_set_does_not_stay(tmp_path):
    found = unpacked(_zip(tmp_path / "a.zip", "x"), str(tmp_path / "mine"))
    with pytest.raises(DataError, match="nothing in it"), found:
        raise DataError("nothing in it")
    assert os.listdir(tmp_path) == ["a.zip"]
    archive = _zip(tmp_path / "a.zip", "one")
    with unpacked(archive, str(tmp_path / "mine")) as data:
        assert data == str(tmp_path / "mine" / "data")
        assert (tmp_path / "mine" / "data" / "set" / "a.txt").read_text() == "one"
    before = os.stat(os.path.join(data, "set", "a.txt"))
    with unpacked(archive, str(tmp_path / "mine")) as data:
        assert os.stat(os.path.join(data, "set", "a.txt")) == before
    another = unpacked(_zip(tmp_path / "b.zip", "two"), str(tmp_path / "mine"))
    with pytest.raises(ConfigError, match="found others"), another:
        pass
    with unpacked(str(tmp_path), "mine") as data:
        assert data == str(tmp_path)


def annotated(path, *, size=(40, 30), boxes=((4, 6, 20, 24),), name="cat", **flags):
    known = {"crowd": 0, "difficult": None, "truncated": None, "pose": None, "label": ""}
    objects = [AnnotatedObject(name=name, box=box, area=0.0, **{**known, **flags}) for box in boxes]
    return AnnotatedImage("id", str(path), str(path), *size, objects)


def write(path, size, *, turned=False):
    exif = Image.Exif()
    exif[0x0112] = 6 if turned else 1
    Image.new("RGB", size, (90, 90, 90)).save(path, exif=exif)
    return path


def drawn(images, classes=("cat", "dog")):
    return np.asarray(Image.open(io.BytesIO(draw_sample_grid(images, classes))))


def test_boxes_are_drawn_where_they_are_in_the_colour_of_their_class(tmp_path):
    path = write(tmp_path / "grey.png", (400, 300))
    sheet = drawn([annotated(path, size=(400, 300), boxes=((100, 60, 300, 240),), name="dog")])
    rows, columns = np.nonzero((sheet[:270] == class_colour(1)).all(axis=-1))
    scale = CELL / 400
    assert abs(rows.max() - rows.min() - 180 * scale) <= 22  # with the name above it
    assert abs(columns.max() - columns.min() - 200 * scale) <= 4 and abs(columns.min() - 6 - 100 * scale) <= 4
    in_pixels = annotated(path, size=(400, 300), boxes=((100, 60, 300, 240),))
    in_fractions = annotated(path, size=(0, 0), boxes=((0.25, 0.2, 0.75, 0.8),))._replace(in_fractions=True)
    np.testing.assert_array_equal(drawn([in_pixels]), drawn([in_fractions]))


def test_masks_and_keypoints_are_drawn_whatever_form_a_mask_has(tmp_path):
    path, mask = write(tmp_path / "grey.png", (360, 240)), tmp_path / "mask.png"
    left_half: np.ndarray = np.zeros((240, 360), np.uint8)
    left_half[60:180, 90:180] = 1
    Image.fromarray(left_half).save(mask)
    runs = np.diff(np.flatnonzero(np.diff(left_half.T.ravel(), prepend=0, append=0)), prepend=0)
    in_pixels = [90.0, 60.0, 180.0, 60.0, 180.0, 180.0, 90.0, 180.0]
    masks = [
        Polygons([in_pixels]),
        RunLengths(240, 360, [*runs.tolist(), 240 * 360 - int(runs.sum())]),
        MaskFile(str(mask)),
    ]
    box, points = (90.0, 60.0, 270.0, 180.0), ((225.0, 120.0, 2), (0.0, 0.0, 0))
    known = {"size": (360, 240), "boxes": (box,), "name": ""}
    plain = drawn([annotated(path, **known)])
    sheets = [drawn([annotated(path, **known, mask=each, keypoints=points)]) for each in masks]
    for sheet in sheets:
        changed = (sheet != plain).any(axis=-1)
        assert changed[66:186, 96:186].mean() > 0.85  # of the mask inside the box's line
        assert changed[126, 231] and changed[66:186, 192:].sum() < 60  # of the keypoint, and no more
        np.testing.assert_array_equal(sheet, sheets[0])
    huge = RunLengths(10**6, 10**6, [10**12])
    for bad in (huge, Polygons([[1e9, 0.0, 1.0, 1.0, 2.0, 2.0]]), MaskFile("none.png")):
        np.testing.assert_array_equal(drawn([annotated(path, **known, mask=bad)]), plain)


def test_pictures_are_laid_in_rows_and_those_that_cannot_be_read_are_left_out(tmp_path):
    paths = [tmp_path / f"{n}.jpg" for n in range(COLUMNS + 1)]
    for n, path in enumerate(paths):
        path.write_bytes(picture(seed=n))
    assert COLUMNS * CELL < drawn([annotated(path) for path in paths]).shape[1] < (COLUMNS + 1) * CELL
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


def test_names_of_any_kind_are_written_and_no_more_is_drawn_than_memory_and_time_allow(tmp_path, monkeypatch):
    small = tmp_path / "x.jpg"
    small.write_bytes(picture())
    image = annotated(small, name="a\nb", crowd=1)._replace(filename="a\n\ud800.jpg", width=0, height=0)
    assert drawn([image], ["a\nb", "\u202ex", "", "é" * 200, "\ud800"] * 20).size
    crowded = annotated(small, boxes=((4, 6, 20, 24),) * 20_000)
    named = annotated(small, name="n" * 1_000_000, boxes=((math.nan, 1, math.inf, 2), (1, 1, 1e300, 9)))
    sized = annotated(small, size=(10**400, 10**400))
    began = time.process_time()
    assert drawn([crowded, named, sized]).size and time.process_time() - began < 5
    monkeypatch.setattr(sample_grid, "_DECODED_PIXELS", 2 * 3_000 * 2_000)
    paths = [tmp_path / f"{n}.png" for n in range(3)]
    for path in paths:
        write(path, (3_000, 2_000))
    assert 2 * CELL < drawn([annotated(path, size=(3_000, 2_000)) for path in paths]).shape[1] < 3 * CELL
