"""Images of a data set: their files, kinds, parts and sizes."""

import itertools
import os
import re
import struct
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from detection_core.data.decode import decode_pixels
from detection_core.datasets import image_files, image_parts
from detection_core.datasets.annotated_images import AnnotatedImage, Annotations, Rejected
from detection_core.datasets.encoding import DECODINGS, find_decoding, make_example
from detection_core.datasets.image_files import ImageFiles, shown_size, shown_sizes
from detection_core.datasets.image_parts import find_parts, part_names, plain_line
from detection_core.datasets.layout_search import find_format, find_layout
from detection_core.datasets.readers import find_reader
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.folder_listing import FolderListing, list_folder
from detection_core.tasks.predict import read_image
from pipeline.settings.workflow_settings import DataSettings
from tests.support import dataset_files
from tests.support.cases import cases, refused
from tests.support.dataset_files import (
    HEIGHT,
    WIDTH,
    Coco,
    exif,
    picture,
    png_that_claims,
    reasons,
    turned_by_xmp,
    whole,
    write_files,
)
from tests.support.object_store import s3_server
from tests.support.same_set import WRITERS

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "grün.jpg") for form in ("NFC", "NFD"))


@pytest.fixture
def images(tmp_path):
    names = ("a.jpg", "deep/b.JPG", "deep/c.jpg", "other/c.jpg", "v1.2.png", DECOMPOSED, "back\\slash.png")
    write_files(tmp_path, dict.fromkeys((*names, "notes.txt"), b""))
    return ImageFiles(str(tmp_path))


# Two files are called c.jpg: the one beside the annotation is meant, and none without it. A dot in a name
# that no file has does not make it another's.
@cases(
    ("a.jpg", "", "a.jpg"), ("./deep/../a.jpg", "", "a.jpg"), ("b.JPG", "", "deep/b.JPG"),
    ("b.jpeg", "", "deep/b.JPG"), ("b", "", "deep/b.JPG"), ("C:\\Users\\me\\b.jpg", "", "deep/b.JPG"),
    ("elsewhere/a.png", "", "a.jpg"), ("back\\slash.png", "", "back\\slash.png"), ("v1.2", "", "v1.2.png"),
    (COMPOSED, "", DECOMPOSED), ("unknown.jpg", "deep/b", "deep/b.JPG"), ("c.jpg", "other/x", "other/c.jpg"),
    ("c.jpg", "", "c.jpg"), ("a.final", "", "a.final"), ("notes.txt", "", "notes.txt"),
    # Names of another machine are found by their longest tail.
    ("../a.jpg", None, "a.jpg"), ("/home/me/a.jpg", None, "a.jpg"), ("D:\\cats\\a.jpg", None, "a.jpg"),
    ("\\\\server\\share\\a.jpg", None, "a.jpg"), ("s3://bucket/a.jpg", None, "a.jpg"),
    ("deep/../../a.jpg", None, "a.jpg"), ("/home/me/other/c.jpg", None, "other/c.jpg"),
    ("E:/deep/c.png", None, "deep/c.jpg"),
)  # fmt: skip
def test_a_name_finds_the_one_file_that_is_meant(images, *, name, beside, found):
    assert images.find(name, beside or "") == found and (beside is not None or images.has(name))


def test_of_equal_tails_the_one_beside_is_meant_and_a_missing_folder_has_none(images, tmp_path):
    outside = ("../x.jpg", "/etc/passwd", "C:\\x.jpg", "s3://bucket/x.jpg", "deep/../../x.jpg", "")
    for name in (*outside, "/home/me/c.jpg"):
        refused(Rejected, "leaves the image folder", images.find, name, "unknown")
    assert images.find("/home/me/c.jpg", "deep/x") == "deep/c.jpg"
    assert images.paths_like("c") == images.paths_like("c.jpg") != images.paths_like("deep/c")
    images = ImageFiles(str(tmp_path / "none"))
    assert list(images) == [] and images.find("a.jpg") == "a.jpg"
    assert images.path("a.jpg") == str(tmp_path / "none" / "a.jpg")


PAGE = (Path(__file__).parents[3] / "docs" / "own-data.md").read_text()
_SECTION = PAGE.split("## Images of every kind")[1].split("\n## ")[0]
ROWS = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", _SECTION, re.M)[1:])
PIXELS = np.random.default_rng(1).integers(0, 256, (4, 5, 3), dtype=np.uint8)
SMOOTH = Image.fromarray(PIXELS).resize((40, 30), Image.Resampling.BICUBIC)
FRAMES = {"save_all": True, "append_images": [Image.new("RGB", (40, 30), "blue")]}


def stored(image=SMOOTH, kind="JPEG", **options):
    return dataset_files.encoded(image, kind, **options)


DEEP = Image.fromarray(np.arange(1200, dtype=np.uint16).reshape(30, 40) * 50)
READ = {
    "turned by EXIF": [stored(exif=exif(6), quality=95, subsampling=0), stored(kind="PNG", exif=exif(3))],
    "progressive JPEG": [stored(progressive=True)], "CMYK JPEG": [stored(SMOOTH.convert("CMYK"))],
    "grey JPEG or PNG": [stored(SMOOTH.convert("L")), stored(SMOOTH.convert("L"), "PNG")],
    "several pictures in one JPEG (MPO)": [stored(kind="MPO", **FRAMES)], "16-bit PNG": [stored(DEEP, "PNG")],
    "PNG with transparency": [stored(SMOOTH.convert("RGBA"), "PNG"), stored(SMOOTH.convert("LA"), "PNG")],
    "PNG with a palette": [stored(SMOOTH.convert("P"), "PNG", transparency=0)],
    "animated GIF or WebP": [stored(kind="GIF", **FRAMES), stored(kind="WEBP", lossless=True, **FRAMES)],
    "WebP, TIFF, BMP": [stored(kind=kind) for kind in ("WEBP", "TIFF", "BMP")],
    "another ending than its content": [stored(kind="PNG"), stored(kind="BMP")],
}  # fmt: skip
REFUSED = {
    "HEIC, AVIF, JPEG XL, PDF": [
        b"\0\0\0\x24ftypheic\0\0\0\0mif1heic" + bytes(40), b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(40),
        stored(kind="AVIF"), b"%PDF-1.7\n",
    ],
    "16-bit TIFF": [stored(DEEP, "TIFF")], "truncated": [stored()[:-40], stored(kind="PNG")[:-40]],
    "empty": [b""], "no image": [b"<html>not found</html>", bytes(100)],
    "more than 134 million pixels": [png_that_claims(20_000, 20_000)],
}  # fmt: skip


def record(tmp_path, data):
    (tmp_path / "picture.jpg").write_bytes(data)
    return AnnotatedImage("1", "picture.jpg", str(tmp_path / "picture.jpg"), 0, 0, [])


@cases(*[(row, data) for row, files in READ.items() for data in files])
def test_what_is_stored_shows_what_prediction_sees(tmp_path, *, row, data):
    assert ROWS.keys() == {*READ, *REFUSED}, "every row is tried"
    example = make_example(record(tmp_path, data), {})
    kept = ROWS[row].startswith("stored as it is") or (data[:4] == b"\x89PNG" and not example.turned)
    assert (example.image.data == data) == kept
    seen = read_image(str(tmp_path / "picture.jpg"))
    decoded = decode_pixels(example.image.data, channels=3).numpy()
    assert decoded.shape == seen.shape == (example.image.height, example.image.width, 3)
    assert np.abs(decoded.astype(int) - seen).mean() < 2


@cases(*[(row, data) for row, files in REFUSED.items() for data in files])
def test_what_cannot_be_used_is_put_aside_with_its_reason_and_refused_by_prediction(tmp_path, *, row, data):
    caught = refused(Rejected, "", lambda: make_example(record(tmp_path, data), {}))
    assert f"`{caught.reason}`" in ROWS[row]
    assert "way out" not in ROWS[row] or "export it as JPEG or PNG" in caught.detail
    if row != "16-bit TIFF":
        refused(DataError, r"picture\.jpg", read_image, str(tmp_path / "picture.jpg"))


SPLITS = {"train": ["a"], "eval": ["b"], "test": ["c"]}


def _ids(layout):
    """Return split to names of the images, as a run reads them."""
    reader = find_reader(layout.format)
    found = {}
    for split, location in layout.splits.items():
        assert find_format(layout.path, list(layout.splits.values())) == (layout.path, layout.format)
        read = whole(reader.read_split(layout.path, location, None))
        found[split] = sorted(image.filename.rpartition("/")[2].split(".")[0] for image in read.images)
    return found


def _move(root, places):
    for name, folder in places.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "images" / f"{name}.jpg").rename(root / folder / f"{name}.jpg")


@cases(*sorted(set(WRITERS) - {"tfrecord"}))
def test_lists_beside_a_set_in_one_piece_divide_it_in_every_format(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    lists = {"train.txt": "a", "valid.txt": "b", "test.txt": "c"}
    write_files(tmp_path, {word: f"/home/me/images/{name}.jpg\n" for word, name in lists.items()})
    layout = find_layout(str(tmp_path))
    assert layout.format == data_format and "divided by train.txt" in layout.evidence
    named = zip(("train", "eval", "test"), lists, strict=True)
    assert layout.splits == {split: {"images": word} for split, word in named} and _ids(layout) == SPLITS


@cases("coco", "voc", "csv", "labelme", "cvat", "label_studio", "createml", "via")
def test_folders_of_images_divide_what_is_annotated_in_one_place(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    _move(tmp_path, {"a": "images/train", "b": "images/val", "c": "images/test"})
    layout = find_layout(str(tmp_path))
    assert layout.splits["eval"] == {"images": "images/val"} and _ids(layout) == SPLITS


def test_images_beside_annotations_and_in_several_folders_are_divided(tmp_path):
    WRITERS["csv"](tmp_path)
    _move(tmp_path, dict.fromkeys("abc", "."))
    (tmp_path / "images").rmdir()
    write_files(tmp_path, {"train.txt": "a.jpg\n", "val.txt": "b.jpg\n", "test.txt": "c.jpg\n"})
    assert _ids(find_layout(str(tmp_path))) == SPLITS
    below = tmp_path / "below"
    WRITERS["voc"](below)
    _move(below, {"a": "day/train", "b": "night/train", "c": "day/val"})
    layout = find_layout(str(below))
    assert layout.splits == {"train": {"images": "day/train|night/train"}, "eval": {"images": "day/val"}}
    assert _ids(layout) == {"train": ["a", "b"], "eval": ["c"]}
    assert DataSettings(path="x", splits=layout.splits).splits == layout.splits


def test_images_that_nobody_annotated_and_lists_of_something_else_are_no_split(tmp_path):
    Coco(tmp_path / "coco", images=6).write()
    (tmp_path / "coco" / "images").rename(tmp_path / "coco" / "train")
    write_files(tmp_path / "coco", {"test/unknown.jpg": picture()})
    WRITERS["voc"](tmp_path / "voc")
    lists = {"train.txt": "We trained for an hour.\n", "val.txt": "0 0.5 0.5 0.1 0.1\n"}
    write_files(tmp_path / "voc", lists)
    for name in ("coco", "voc"):
        assert find_layout(str(tmp_path / name)).splits == {"train": 0.8, "eval": 0.2}, name


def test_the_shortest_name_of_a_list_is_meant_and_trainval_where_there_is_no_other(tmp_path):
    WRITERS["coco"](tmp_path)
    lists = {"cat_train.txt": "a 1\n", "cat_test.txt": "c -1\n", "trainval.txt": "a\nb\n"}
    write_files(tmp_path / "ImageSets", lists)
    assert _ids(find_layout(str(tmp_path))) == {"train": ["a", "b"], "eval": ["c"]}
    write_files(tmp_path / "ImageSets", {"train.txt": "a\n", "val.txt": "b\n"})
    assert _ids(find_layout(str(tmp_path))) == SPLITS
    assert [plain_line(text) for text in ("a 1", "a -1", "a b 0", "a")] == ["a", "a", "a b", "a"]


def test_what_is_rejected_stays_in_its_split_or_in_every_one_and_wrong_parts_are_refused(tmp_path):
    data = Coco(tmp_path, images=3)
    data.images[0]["width"] = "wide"
    data.add_box(99, [0, 0, 5, 5])
    data.write()
    write_files(tmp_path, {"one.txt": "1.jpg\n", "more.txt": "2.jpg images/1.xml\n3.jpg\n"})
    read = find_reader("coco").read_split
    one, more = (whole(read(str(tmp_path), {"images": n}, None)) for n in ("one.txt", "more.txt"))
    assert reasons(one) == ["malformed_record", "unknown_image"] and not one.images
    assert reasons(more) == ["unknown_image"] and [image.source_id for image in more.images] == ["2", "3"]
    # Images that nobody has annotated yet are those of the part.
    names = [f"{split}/images/{split}{name}.jpg" for name in "ab" for split in ("train", "val")]
    below = tmp_path / "voc"
    write_files(below, {"xml/traina.xml": dataset_files.voc_xml("traina"), **dict.fromkeys(names, picture())})
    read = whole(find_reader("voc").read_split(str(below), {"images": "train/images"}, None))
    assert [image.filename for image in read.images] == ["traina.jpg"]
    assert [image.filename for image in read.unannotated] == ["trainb.jpg"]
    tmp_path /= "csv"
    WRITERS["csv"](tmp_path)
    root, reader = str(tmp_path), find_reader("csv")
    assert part_names({"annotations": "x", "images": "y"}) is None and part_names("train.txt") is None
    locate = reader.locate_split
    for images in (5, "a||b"):
        refused(ConfigError, "expected a folder of images or a list", locate, root, {"images": images})
    refused(DataError, r"found nothing; correct data\.splits", locate, root, {"images": "none.txt"})
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfd")
    message = "expected a list of images in text format"
    refused(DataError, message, reader.read_split, root, {"images": "bad.txt"}, None)
    assert f"{root}/images" in list(reader.locate_split(root, {"images": "images"}))


def test_label_files_are_not_opened_in_search_of_lists(tmp_path, monkeypatch):
    (tmp_path / "classes.txt").write_text("cat\n")
    for number in range(80):
        (tmp_path / f"train_{number}.jpg").write_bytes(picture())
        (tmp_path / f"train_{number}.txt").write_text("0 0.5 0.5 0.1 0.1\n")
        (tmp_path / f"test-notes-{number}.txt").write_text("nothing")
    listing, opened = list_folder(str(tmp_path)), []
    monkeypatch.setattr(FolderListing, "ends", lambda _, name, length=0: opened.append(name) or (b"", b""))
    assert find_parts(listing, []) == {}
    assert len(opened) == 50 and all(name.startswith("test-notes") for name in opened)


@cases(*itertools.product(["JPEG", "PNG", "TIFF", "WEBP"], [1, 3, 6, 8]))
def test_a_size_is_that_of_the_image_as_it_is_shown(tmp_path, *, image_format, orientation):
    (tmp_path / "a").write_bytes(picture(image_format, exif=exif(orientation)))
    assert shown_size(str(tmp_path / "a")) == ((40, 30) if orientation < 5 else (30, 40))


# The larger has more pixels than the beginning that is read of a file on a store.
@cases((40, 30), (200, 300))
def test_an_orientation_behind_the_pixels_of_a_png_counts(tmp_path, *, size):
    # The same PNG with its eXIf chunk behind its pixels, where some programs put it.
    data = picture("PNG", *size, exif=exif(6))
    chunks, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        chunks.append(data[at : at + 12 + length])
        at += 12 + length
    order = sorted(chunks, key=lambda chunk: {b"eXIf": 1, b"IEND": 2}.get(chunk[4:8], 0))
    assert order != chunks
    (tmp_path / "a.png").write_bytes(data[:8] + b"".join(order))
    assert shown_size(str(tmp_path / "a.png")) == size[::-1]
    with s3_server() as bucket:
        files.copy_file(str(tmp_path / "a.png"), f"{bucket}/a.png")
        assert shown_size(f"{bucket}/a.png") == size[::-1]


def test_sizes_come_in_order_with_the_orientation_of_xmp_and_without_pipes(tmp_path):
    (tmp_path / "a.jpg").write_bytes(turned_by_xmp(6))
    assert shown_size(str(tmp_path / "a.jpg")) == (HEIGHT, WIDTH)
    os.mkfifo(tmp_path / "pipe")
    refused(Rejected, "expected a regular file", shown_size, str(tmp_path / "pipe"))
    below = dataset_files.subfolder(tmp_path, 1)
    sizes = [(40, 30), (30, 40), (8, 8), (64, 16)]
    for number, (width, height) in enumerate(sizes):
        # One with more before its size than is read at first.
        options = {"icc_profile": b"x" * 200_000} if number == 1 else {}
        (below / f"{number}.jpg").write_bytes(picture("JPEG", width, height, **options))
    names = ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert list(shown_sizes([str(below / name) for name in names])) == sizes
    with s3_server() as bucket:
        files.copy_tree(str(below), f"{bucket}/a")
        *there, missing = shown_sizes([f"{bucket}/a/{name}" for name in [*names, "none.jpg"]])
    assert there == sizes and missing.reason == "missing_image"


@cases(
    (None, "missing_image"), (b"", "empty_image"), (b"text", "not_an_image"),
    (picture()[:50], "truncated_image"), (png_that_claims(1 << 20, 1 << 20), "decompression_bomb"),
)  # fmt: skip
def test_what_has_no_size_has_a_reason(tmp_path, *, data, reason):
    if data is not None:
        (tmp_path / "a").write_bytes(data)
    assert refused(Rejected, "", shown_size, str(tmp_path / "a")).reason == reason


@given(st.sampled_from(sorted(DECODINGS)), st.integers(0, 10_000), st.integers(1, 50))
def test_the_parts_of_a_split_add_up(name, records, parts):
    decoding = find_decoding(name)
    edges = [i * records // parts for i in range(parts + 1)]
    counts = [decoding.images_in(a, b, records) for a, b in itertools.pairwise(edges)]
    assert sum(counts) == decoding.images_of(records)
    assert all(0 <= count <= b - a for count, a, b in zip(counts, edges[:-1], edges[1:], strict=True))


def test_a_sample_is_small_and_never_nothing_and_another_word_is_refused():
    assert [DECODINGS["sample"].images_of(n) for n in (0, 5, 100, 118_287)] == [0, 5, 16, 119]
    assert DECODINGS["all"].images_of(118_287) == 118_287 and DECODINGS["none"].images_of(118_287) == 0
    refused(ConfigError, r"decode_images: expected one of .*'all'.*, found 'some'", find_decoding, "some")


def test_images_without_annotation_are_called_as_with_one_and_count_once(tmp_path):
    names = ("a.jpg", "b.jpg", "b.png", "deep/c.jpg", "d\n.jpg", "e.jpg")
    write_files(tmp_path, dict.fromkeys(names, b"image"))
    available = ImageFiles(str(tmp_path))
    ids = [image_files.image_without_objects(name, f"{name}.jpg", name) for name in "ae"]
    annotated = Annotations(images=ids, about={str(tmp_path / "a.jpg")})
    found = whole(image_files.with_unannotated(annotated, available)).unannotated
    named = {"b": "b.jpg", "b.png": "b.png", "e.jpg": "e.jpg", "deep/c": "deep/c.jpg"}
    assert [(image.source_id, image.filename) for image in found] == list(named.items())
    assert not any(image.objects for image in found)
    below = whole(image_files.with_unannotated(Annotations(), available, "deep/")).unannotated
    assert [image.filename for image in below] == ["deep/c.jpg"]
    a, b, c = (image_files.image_without_objects(name, name, f"/{name}") for name in "abc")
    assert image_files.left_over([[a, b], [b, c]], [[], ["/a"]]) == [[b], [c]]


def test_a_list_of_images_has_a_bound_of_lines(tmp_path, monkeypatch):
    (tmp_path / "list").write_text("a\r\n\n b \n")
    monkeypatch.setattr(image_parts, "_MAX_LINES", 4)
    assert image_parts.read_list(str(tmp_path / "list")) == ["a", "b"]
    monkeypatch.setattr(image_parts, "_MAX_LINES", 3)
    expected = "expected a list of images of at most 3 lines, found 4"
    for name, message in (("list", expected), ("none", "cannot read the list of images")):
        path = str(tmp_path / name)
        assert refused(DataError, message, image_parts.read_list, path).where == path
