"""Data sets of Pascal VOC."""

import os
from pathlib import Path

import pytest

from detection_core.datasets.annotated_images import AnnotatedObject
from detection_core.datasets.formats import voc
from detection_core.errors import ConfigError, DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import reading, subfolder, voc_xml, write_voc

_read = reading(voc)

TRAIN = "ImageSets/Main/train.txt"


def test_every_field_of_an_object_is_kept(tmp_path):
    path = write_voc(tmp_path, ["a"])
    found = _read(path, TRAIN)
    (image,) = found.images
    assert (image.source_id, image.filename, image.width, image.height) == ("a", "a.jpg", 40, 30)
    assert image.path == str(tmp_path / "JPEGImages" / "a.jpg")
    assert image.objects == [AnnotatedObject("cat", (5, 6, 20, 25), 0.0, 0, 0, 1, "Left", "object 1")]
    assert found.categories == {"cat": 0}


@cases(
    ("<occluded>1</occluded>", 1), ("<occluded> 0 </occluded>", 0), ("<occluded>half</occluded>", None),
    ("", None),
)  # fmt: skip
def test_an_object_says_whether_it_is_occluded_where_it_does(tmp_path, *, text, occluded):
    xml = voc_xml("a").replace("</object>", f"{text}</object>")
    (image,) = _read(write_voc(tmp_path, ["a"], a=xml), TRAIN).images
    assert image.objects[0].occluded == occluded


def test_an_image_set_chooses_and_orders_the_images(tmp_path):
    path = write_voc(tmp_path)
    (tmp_path / TRAIN).write_text("c\n\n a  1\nb -1\n")
    assert [image.source_id for image in _read(path, TRAIN).images] == ["c", "a", "b"]
    assert [image.source_id for image in _read(path).images] == ["a", "b", "c", "d"]
    below = subfolder(tmp_path, 1)
    path = write_voc(below)
    (below / TRAIN).write_text("a\n../../secret\n")
    assert [r.reason for r in _read(path, TRAIN).rejected] == ["path_outside"]
    below = subfolder(tmp_path, 2)
    path = write_voc(below)
    (below / TRAIN).write_bytes(b"\xef\xbb\xbfb\nc\n")
    assert [image.source_id for image in _read(path, TRAIN).images] == ["b", "c"]


def test_a_name_or_a_size_that_is_missing_is_found_or_left_open(tmp_path):
    nameless = voc_xml("a").replace("<filename>a.jpg</filename>", "")
    bare, elsewhere = voc_xml("a").replace("a.jpg", "other"), voc_xml("a").replace("a.jpg", "C:\\mine\\x.png")
    found = _read(write_voc(tmp_path, a=nameless, b=bare, c=elsewhere), None)
    assert [image.filename for image in found.images[:3]] == ["a.jpg", "b.jpg", "c.jpg"]
    (tmp_path / "JPEGImages" / "b.jpg").unlink()
    assert _read(tmp_path).images[1].filename == "other.jpg"
    below = subfolder(tmp_path, 1)
    found = _read(write_voc(below, a=voc_xml("a", size=("", ""))), None)
    assert (found.images[0].width, found.images[0].height) == (0, 0)


@cases(
    ("annots", "images"), ("annotations", "images"), (".", "."), ("a/b", "a"), ("labels/xml", "data/pictures")
)
def test_folders_may_have_any_name(tmp_path, *, annotations, images):
    for name in "ab":
        for folder, suffix, data in (
            (images, ".jpeg", b"any"),
            (annotations, ".xml", voc_xml(name).encode()),
        ):
            (tmp_path / folder / "deep").mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / "deep" / (name + suffix)).write_bytes(data)
    for location in (None, {"annotations": annotations, "images": images}):
        found = _read(tmp_path, location)
        paths = [tmp_path / images / "deep" / f"{name}.jpeg" for name in "ab"]
        assert [Path(image.path).resolve() for image in found.images] == paths and not found.rejected


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'


@cases(
    ("", "unreadable_annotation"), ("not xml", "unreadable_annotation"),
    (voc_xml("a")[:-20], "unreadable_annotation"), (BOMB + voc_xml("a"), "unreadable_annotation"),
    ('<?xml version="1.0" encoding="no-such"?>' + voc_xml("a"), "unreadable_annotation"),
    (voc_xml("a", size=("wide", 30)), "malformed_record"), (voc_xml("a", label=""), "malformed_annotation"),
    (voc_xml("a", boxes=[("left", 1, 2, 3)]), "malformed_annotation"),
    (voc_xml("a", extra="<object><name>cat</name></object>"), "malformed_annotation"),
    (voc_xml("a").replace("<truncated>1", "<truncated>very"), "malformed_annotation"),
)  # fmt: skip
def test_a_bad_file_costs_only_its_image(tmp_path, *, text, reason):
    found = _read(write_voc(tmp_path, a=text), None)
    assert [(r.file, r.record, r.reason) for r in found.rejected] == [("Annotations/a.xml", "a", reason)]
    assert [image.source_id for image in found.images] == ["b", "c", "d"]


def test_a_location_that_is_wrong_or_leads_nowhere_is_refused(tmp_path):
    path = write_voc(tmp_path)
    refused(ConfigError, "ImageSets", voc.locate, path, {"annotations": TRAIN})
    with pytest.raises(DataError, match=r"Pascal VOC: an XML file an image.*found none"):
        voc.locate(str(tmp_path / "JPEGImages"), None)
    refused(DataError, "image set", voc.locate, path, "ImageSets/Main/no.txt")


@cases("latin-1", "utf-16")
def test_an_image_set_in_another_encoding_is_one_error(tmp_path, *, encoding):
    path = write_voc(tmp_path)
    (tmp_path / TRAIN).write_bytes("caf\xe9\n".encode(encoding))
    refused(DataError, r"train\.txt: expected a list of images in text format", _read, path, TRAIN)


def test_pipes_folders_and_names_that_are_no_utf_8_are_put_aside(tmp_path):
    root = write_voc(tmp_path, names="ab")
    (tmp_path / "Annotations" / "b.xml").unlink()
    (tmp_path / "Annotations" / "b.xml").mkdir()
    (tmp_path / "Annotations" / "deep.xml").mkdir()
    (tmp_path / "Annotations" / "deep.xml" / "c.XML").write_text(voc_xml("c"))
    found = _read(root, {"annotations": "Annotations", "images": "JPEGImages"})
    assert [(r.file, r.reason) for r in found.rejected] == [("Annotations/b.xml", "unreadable_annotation")]
    assert [image.source_id for image in found.images] == ["a", "deep.xml/c"]
    below = subfolder(tmp_path, 1)
    path = write_voc(below)
    (below / "Annotations" / "b.xml").unlink()
    os.mkfifo(below / "Annotations" / "b.xml")
    (rejection,) = _read(path, TRAIN).rejected
    assert (rejection.record, rejection.reason) == ("b", "unreadable_annotation")
    os.mkfifo(below / "ImageSets" / "Main" / "pipe.txt")
    refused(DataError, "found no regular file", _read, path, "ImageSets/Main/pipe.txt")
    below = subfolder(tmp_path, 2)
    path = write_voc(below)
    (below / "Annotations" / os.fsdecode(b"b\xff.xml")).write_text(voc_xml("b"))
    found = _read(path)
    assert [(r.record, r.reason) for r in found.rejected] == [("b\udcff", "malformed_record")]
    assert len(found.images) == 4
