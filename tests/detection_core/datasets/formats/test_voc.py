import os
from pathlib import Path

from detection_core.datasets.annotated_images import AnnotatedObject
from detection_core.datasets.formats import voc
from detection_core.errors import ConfigError, DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import ids, reading, reasons, voc_xml, write_files, write_voc

_read = reading(voc)
TRAIN = "ImageSets/Main/train.txt"
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'


def test_every_field_of_an_object_is_kept(tmp_path):
    path = write_voc(tmp_path, ["a"])
    found = _read(path, TRAIN)
    (image,) = found.images
    assert (image.source_id, image.filename, image.width, image.height) == ("a", "a.jpg", 40, 30)
    assert image.path == str(tmp_path / "JPEGImages" / "a.jpg")
    assert image.objects == [AnnotatedObject("cat", (5, 6, 20, 25), 0.0, 0, 0, 1, "Left", "object 1")]
    assert found.categories == {"cat": 0}
    for text, occluded in (("1", 1), (" 0 ", 0), ("half", None)):
        xml = voc_xml("a").replace("</object>", f"<occluded>{text}</occluded></object>")
        (image,) = _read(write_voc(tmp_path, ["a"], a=xml), TRAIN).images
        assert image.objects[0].occluded == occluded, text


def test_an_image_set_chooses_and_orders_the_images_or_is_refused(tmp_path):
    path = write_voc(tmp_path)
    assert ids(_read(path)) == ["a", "b", "c", "d"]
    for data, names in ((b"c\n\n a  1\nb -1\n", ["c", "a", "b"]), (b"\xef\xbb\xbfb\nc\n", ["b", "c"])):
        (tmp_path / TRAIN).write_bytes(data)
        assert ids(_read(path, TRAIN)) == names
    (tmp_path / TRAIN).write_text("a\n../../secret\n")
    assert reasons(_read(path, TRAIN)) == ["path_outside"]
    for encoding in ("latin-1", "utf-16"):
        (tmp_path / TRAIN).write_bytes("caf\xe9\n".encode(encoding))
        refused(DataError, r"train\.txt: expected a list of images in text format", _read, path, TRAIN)
    refused(ConfigError, "ImageSets", voc.locate, path, {"annotations": TRAIN})
    refused(DataError, "Pascal VOC: an XML file an image.*found none", voc.locate, f"{path}/JPEGImages", None)
    refused(DataError, "image set", voc.locate, path, "ImageSets/Main/no.txt")


def test_a_name_or_a_size_that_is_missing_is_found_or_left_open(tmp_path):
    nameless = voc_xml("a").replace("<filename>a.jpg</filename>", "")
    bare, elsewhere = voc_xml("a").replace("a.jpg", "other"), voc_xml("a").replace("a.jpg", "C:\\mine\\x.png")
    changed = {"a": nameless, "b": bare, "c": elsewhere, "d": voc_xml("d", size=("", ""))}
    images = _read(write_voc(tmp_path, **changed)).images
    assert [image.filename for image in images[:3]] == ["a.jpg", "b.jpg", "c.jpg"]
    assert (images[3].width, images[3].height) == (0, 0)
    (tmp_path / "JPEGImages" / "b.jpg").unlink()
    assert _read(tmp_path).images[1].filename == "other.jpg"


@cases(
    ("annots", "images"), ("annotations", "images"), (".", "."), ("a/b", "a"), ("labels/xml", "data/pictures")
)
def test_folders_may_have_any_name(tmp_path, *, annotations, images):
    for name in "ab":
        files = {f"{images}/deep/{name}.jpeg": b"any", f"{annotations}/deep/{name}.xml": voc_xml(name)}
        write_files(tmp_path, files)
    for location in (None, {"annotations": annotations, "images": images}):
        found = _read(tmp_path, location)
        paths = [tmp_path / images / "deep" / f"{name}.jpeg" for name in "ab"]
        assert [Path(image.path).resolve() for image in found.images] == paths and not found.rejected


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
    found = _read(write_voc(tmp_path, a=text))
    assert [(r.file, r.record, r.reason) for r in found.rejected] == [("Annotations/a.xml", "a", reason)]
    assert ids(found) == ["b", "c", "d"]


def test_pipes_folders_and_names_that_are_no_utf_8_are_put_aside(tmp_path):
    root, folder = write_voc(tmp_path), tmp_path / "Annotations"
    for name in "bc":
        (folder / f"{name}.xml").unlink()
    os.mkfifo(folder / "b.xml")
    (folder / "c.xml").mkdir()
    write_files(folder, {"deep.xml/e.XML": voc_xml("e"), os.fsdecode(b"f\xff.xml"): voc_xml("f")})
    found = _read(root, {"annotations": "Annotations", "images": "JPEGImages"})
    unread = [(f"Annotations/{name}.xml", "unreadable_annotation") for name in "bc"]
    assert [(r.file, r.reason) for r in found.rejected[:2]] == unread
    assert [(r.record, r.reason) for r in found.rejected[2:]] == [("f\udcff", "malformed_record")]
    assert ids(found) == ["a", "d", "deep.xml/e"]
    listed = _read(root, TRAIN).rejected
    assert [(r.record, r.reason) for r in listed] == [(name, "unreadable_annotation") for name in "bc"]
    os.mkfifo(tmp_path / "ImageSets" / "Main" / "pipe.txt")
    refused(DataError, "found no regular file", _read, root, "ImageSets/Main/pipe.txt")
