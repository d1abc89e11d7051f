"""Formats in XML: CVAT and Pascal VOC."""

import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pycocotools import mask as coco_mask

from detection_core.datasets.annotated_images import AnnotatedObject, ImageLabel, Polygons, Rejected
from detection_core.datasets.formats import cvat, voc, xml_files
from detection_core.datasets.formats.cvat import read_objects
from detection_core.datasets.formats.xml_files import parse_xml, read_children
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import ConfigError, DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import ids, picture, reading, reasons, voc_xml, write_files, write_voc
from tests.support.memory import memory_below

BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'


def _parse(root, data):
    write_files(root, {"a.xml": data})
    return parse_xml(str(root / "a.xml"))


@cases(
    (BOMB, "document type"), (OUTSIDE, "document type"), (BOMB.encode("utf-16"), "document type"),
    ("<x>", "cannot be parsed"), ("", "cannot be parsed"),
    ('<?xml version="1.0" encoding="none"?><x/>', "encoding"),
)  # fmt: skip
def test_what_is_not_plain_xml_is_refused(tmp_path, *, data, said):
    assert refused(Rejected, said, _parse, tmp_path, data).reason == "unreadable_annotation"


def test_plain_xml_is_parsed_and_a_missing_sparse_file_or_a_pipe_has_a_reason(tmp_path):
    assert _parse(tmp_path, "<x><y>1</y></x>").findtext("y") == "1"
    refused(Rejected, "no such file", parse_xml, str(tmp_path / "b.xml"))
    os.mkfifo(tmp_path / "pipe")
    refused(Rejected, "regular file", parse_xml, str(tmp_path / "pipe"))
    os.truncate(tmp_path / "a.xml", 5 * 2**30)
    error = refused(Rejected, "at most 16,777,216 bytes", parse_xml, str(tmp_path / "a.xml"))
    assert error.reason == "unreadable_annotation"


def _tags(path):
    seen = []
    return [(e.tag, e.attrib, [c.tag for c in e]) for e in read_children(str(path), seen.append)], seen


@cases(1, 7, 1 << 20)
def test_children_come_one_by_one_with_all_that_is_in_them(tmp_path, monkeypatch, *, piece):
    monkeypatch.setattr(xml_files, "_PIECE", piece)
    (tmp_path / "a.xml").write_text('<r><a n="1"><r/><a><b/></a></a> text <b/><!-- c --><a n="2"/></r>')
    children = [("a", {"n": "1"}, ["r", "a"]), ("b", {}, []), ("a", {"n": "2"}, [])]
    assert _tags(tmp_path / "a.xml") == (children, ["r"])


@cases(
    (BOMB, "document type"), ("<r><a/>", "cannot be parsed"), ("<r><a/></r><r/>", "cannot be parsed"),
    ("", "cannot be parsed"), ("<r " + "x" * 300, "in which no element begins"),
    ("<r>" + "x" * 300 + "</r>", "in which no element begins"),
)  # fmt: skip
def test_children_of_what_is_not_plain_xml_are_refused(tmp_path, monkeypatch, *, text, said):
    monkeypatch.setattr(xml_files, "_PIECE", 50)
    monkeypatch.setattr(xml_files, "MAX_SILENCE", 100)
    (tmp_path / "a.xml").write_text(text)
    refused(Rejected, said, _tags, tmp_path / "a.xml")
    refused(Rejected, "no such file", _tags, tmp_path / "b.xml")


def test_memory_does_not_grow_with_the_children_and_their_elements_have_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(xml_files, "_PIECE", 1 << 14)
    path = tmp_path / "a.xml"
    path.write_text("<r>" + f'<a n="{"x" * 100}"><b/><b/></a>' * 20_000 + "</r>")
    with memory_below(path.stat().st_size // 2):
        assert sum(1 for _ in read_children(str(path), str)) == 20_000
    monkeypatch.setattr(xml_files, "MAX_ELEMENTS", 100)
    _parse(tmp_path, f"<x><z>{'<y></y>' * 90}</z></x>")
    assert len(_tags(tmp_path / "a.xml")[0]) == 1
    write_files(tmp_path, {"a.xml": f"<x><z>{'<y/>' * 300}</z></x>"})
    for read in (parse_xml, _tags):
        refused(Rejected, "at most 100 elements of an image", read, str(tmp_path / "a.xml"))


_read = reading(cvat)
_NAMES = "<label><name>cat</name></label><label><name>fish</name></label>"
_LABELS = f"{_NAMES}<label><name>nose</name><parent>cat</parent></label>"
HERE = {"annotations": "annotations.xml", "images": "."}
BOX = '<box label="cat" xtl="1" ytl="2" xbr="9" ybr="8"/>'
TRACKS = '<annotations><track id="0" label="cat"><box/></track></annotations>'


def _write(root, *images):
    meta = f"<version>1.1</version><meta><task><labels>{_LABELS}</labels></task></meta>"
    write_files(root, {"annotations.xml": f"<annotations>{meta}{''.join(images)}</annotations>"})


def _image(name, inside=BOX, more='width="40" height="30"'):
    return f'<image id="0" name="{name}" {more}>{inside}</image>'


def test_labels_of_the_task_are_classes_tags_are_labels_of_the_image_and_subsets_splits(tmp_path):
    _write(tmp_path, _image("a.jpg", BOX + '<tag label="fish"/>'), _image("b.jpg", ""))
    found = _read(tmp_path, HERE)
    assert found.categories == {"cat": 0, "fish": 0} and found.keypoint_names == {"cat": ["nose"]}
    shown = [(image.labels, len(image.objects)) for image in found.images]
    assert shown == [([ImageLabel("fish")], 1), ([], 0)]
    sets = {"a.jpg": "Train", "b.jpg": "Validation"}
    _write(tmp_path, *(_image(name, more=f'subset="{word}"') for name, word in sets.items()))
    write_files(tmp_path, {f"images/{word}/{name}": picture() for name, word in sets.items()})
    write_files(tmp_path, {"video.xml": TRACKS})  # a file of video beside it is not taken
    layout = find_layout(str(tmp_path))
    subsets = {split: where["subset"] for split, where in layout.splits.items()}
    assert subsets == {"train": "Train", "eval": "Validation"}
    (image,) = _read(layout.path, layout.splits["eval"]).images
    assert image.path.endswith("images/Validation/b.jpg")


@cases(
    ('<!DOCTYPE x [<!ENTITY a "b">]><annotations/>', "document type"), ("<annotations>", "cannot be parsed"),
    ("<annotation/>", "found <annotation>"), (TRACKS, "tracks of a video"),
)  # fmt: skip
def test_a_file_of_which_nothing_can_be_read_is_one_error(tmp_path, *, text, said):
    write_files(tmp_path, {"annotations.xml": text})
    refused(DataError, rf"annotations\.xml: .*{said}", _read, tmp_path, HERE)
    if text == TRACKS:
        way_out = r'tracks of a video; export the task as "CVAT for images 1\.1"'
        refused(DataError, way_out, find_layout, str(tmp_path))


@cases(
    (_image("../a.jpg"), "path_outside"), (_image("b.jpg", more='width="wide"'), "malformed_record"),
    ('<image width="4" height="3"/>', "malformed_record"),
    (_image("b.jpg", "<polyline/>"), "malformed_annotation"),
)  # fmt: skip
def test_a_bad_image_costs_only_itself(tmp_path, *, image, reason):
    _write(tmp_path, _image("a.jpg"), image)
    found = _read(tmp_path, HERE)
    assert reasons(found) == [reason] and len(found.images) == 1


CORNERS = 'label="cat" xtl="10" ytl="10" xbr="20" ybr="14"'
_MASK = '<mask label="cat" left="4" top="5" width="3" height="2" rle="{}"/>'


def _shapes(text, names=None):
    image = ElementTree.fromstring(f"<image>{text}</image>")
    return read_objects(image, 40, 30, {} if names is None else names)


def test_attributes_rows_of_masks_and_skeletons_are_read():
    inside = '<attribute name="Difficult">true</attribute><attribute name="color">red</attribute>'
    (item,) = _shapes(f'<box {CORNERS} occluded="1">{inside}</box>')
    assert item.box == (10, 10, 20, 14) and (item.occluded, item.difficult, item.truncated) == (1, 1, None)
    (item,) = _shapes(_MASK.format("1,1,2,2"))
    runs = {"size": [30, 40], "counts": list(item.mask.counts)}
    whole = coco_mask.decode(coco_mask.frPyObjects(runs, 30, 40))
    assert whole[5:7, 4:7].tolist() == [[0, 1, 0], [0, 1, 1]] and whole.sum() == 3
    assert item.box == (4, 5, 7, 7)
    points = '<points label="tail" points="3,4" occluded="1"/><points label="nose" points="9,8"/>'
    text = f'<skeleton label="cat">{points}<points label="ear" points="30,20" outside="1"/></skeleton>'
    (item,) = _shapes(text, {"cat": ["nose", "ear", "tail"]})
    assert item.keypoints == [(9, 8, 2), (30, 20, 0), (3, 4, 1)] and item.box == (3, 4, 9, 8)
    names = {}
    _shapes(text, names)
    assert names == {"cat": ["ear", "nose", "tail"]}


def test_turned_boxes_polygons_and_ellipses_have_outlines():
    (item,) = _shapes(f'<box {CORNERS} rotation="90"/>')
    assert item.box == pytest.approx((13, 7, 17, 17)) and len(item.mask.rings[0]) == 8
    polygon = '<polygon label="cat" points="{}" group_id="{{}}"/>'
    one = polygon.format("1,1;3,1;3,3") + polygon.format("8,8;9,8;9,9")
    (item,) = _shapes(one.format(4, 4))
    assert item.mask == Polygons([[1, 1, 3, 1, 3, 3], [8, 8, 9, 8, 9, 9]]) and item.box == (1, 1, 9, 9)
    assert len(_shapes(one.format(4, 5))) == len(_shapes(one.format(0, 0))) == 2
    (item,) = _shapes('<ellipse label="cat" cx="10" cy="10" rx="4" ry="2"/>')
    assert item.box == pytest.approx((6, 8, 14, 12)) and item.mask


@cases(
    '<box label="cat" xtl="1" ytl="2" xbr="x" ybr="4"/>', "<box/>",
    '<box label="cat" xtl="1" ytl="2" xbr="nan" ybr="4"/>', '<box label="cat"/>',
    '<polygon label="cat" points="1,2;3,4"/>', '<polygon label="cat" points="1,2;3;4"/>',
    '<polygon label="cat" points="1,2;x,4;5,6"/>', '<polyline label="cat" points="1,2;3,4"/>',
    '<skeleton label="cat"/>', *map(_MASK.format, ("1,1", "-1,7", "x")),
)  # fmt: skip
def test_what_cannot_be_used_is_refused_by_its_place(*, text):
    error = refused(Rejected, " 1: label" if text == "<box/>" else " 1: ", _shapes, text)
    assert error.reason == ("malformed_record" if text == "<box/>" else "malformed_annotation")


def test_what_asks_for_too_much_is_refused(monkeypatch):
    def skeleton(points):
        names = "".join(f'<points label="{n}" points="1,1"/>' for n in range(points))
        return f'<skeleton label="cat">{names}</skeleton>'

    polygon = f'<polygon label="cat" points="{"1,1;" * 100_001}"/>'
    refused(Rejected, "at most 100,000 points of an outline", _shapes, polygon)
    refused(Rejected, "at most 1,000 keypoints of an object", _shapes, skeleton(1_001))
    monkeypatch.setattr("detection_core.datasets.formats.cvat.MAX_VALUES", 25)
    refused(Rejected, "at most 25 keypoints of an image", _shapes, skeleton(10) + skeleton(1) * 2)
    mask = '<mask label="cat" rle="0,2500000000" left="0" top="0" width="50000" height="50000"/>'
    refused(Rejected, "expected runs of 50000x50000 pixels", _shapes, mask)


_voc_read = reading(voc)
TRAIN = "ImageSets/Main/train.txt"


def test_every_field_of_an_object_is_kept(tmp_path):
    found = _voc_read(write_voc(tmp_path, ["a"]), TRAIN)
    (image,) = found.images
    assert (image.source_id, image.filename, image.width, image.height) == ("a", "a.jpg", 40, 30)
    assert image.path == str(tmp_path / "JPEGImages" / "a.jpg")
    assert image.objects == [AnnotatedObject("cat", (5, 6, 20, 25), 0.0, 0, 0, 1, "Left", "object 1")]
    assert found.categories == {"cat": 0}
    for text, occluded in (("1", 1), (" 0 ", 0), ("half", None)):
        xml = voc_xml("a").replace("</object>", f"<occluded>{text}</occluded></object>")
        (image,) = _voc_read(write_voc(tmp_path, ["a"], a=xml), TRAIN).images
        assert image.objects[0].occluded == occluded, text


def test_an_image_set_chooses_and_orders_the_images_or_is_refused(tmp_path):
    path = write_voc(tmp_path)
    assert ids(_voc_read(path)) == ["a", "b", "c", "d"]
    for data, names in ((b"c\n\n a  1\nb -1\n", ["c", "a", "b"]), (b"\xef\xbb\xbfb\nc\n", ["b", "c"])):
        (tmp_path / TRAIN).write_bytes(data)
        assert ids(_voc_read(path, TRAIN)) == names
    (tmp_path / TRAIN).write_text("a\n../../secret\n")
    assert reasons(_voc_read(path, TRAIN)) == ["path_outside"]
    for encoding in ("latin-1", "utf-16"):
        (tmp_path / TRAIN).write_bytes("caf\xe9\n".encode(encoding))
        refused(DataError, r"train\.txt: expected a list of images in text format", _voc_read, path, TRAIN)
    refused(ConfigError, "ImageSets", voc.locate, path, {"annotations": TRAIN})
    refused(DataError, "Pascal VOC: an XML file an image.*found none", voc.locate, f"{path}/JPEGImages", None)
    refused(DataError, "image set", voc.locate, path, "ImageSets/Main/no.txt")


def test_a_name_or_a_size_that_is_missing_is_found_or_left_open(tmp_path):
    nameless = voc_xml("a").replace("<filename>a.jpg</filename>", "")
    bare, elsewhere = voc_xml("a").replace("a.jpg", "other"), voc_xml("a").replace("a.jpg", "C:\\mine\\x.png")
    changed = {"a": nameless, "b": bare, "c": elsewhere, "d": voc_xml("d", size=("", ""))}
    images = _voc_read(write_voc(tmp_path, **changed)).images
    assert [image.filename for image in images[:3]] == ["a.jpg", "b.jpg", "c.jpg"]
    assert (images[3].width, images[3].height) == (0, 0)
    (tmp_path / "JPEGImages" / "b.jpg").unlink()
    assert _voc_read(tmp_path).images[1].filename == "other.jpg"


@cases(
    ("annots", "images"), ("annotations", "images"), (".", "."), ("a/b", "a"), ("labels/xml", "data/pictures")
)
def test_folders_may_have_any_name(tmp_path, *, annotations, images):
    for name in "ab":
        files = {f"{images}/deep/{name}.jpeg": b"any", f"{annotations}/deep/{name}.xml": voc_xml(name)}
        write_files(tmp_path, files)
    for location in (None, {"annotations": annotations, "images": images}):
        found = _voc_read(tmp_path, location)
        paths = [tmp_path / images / "deep" / f"{name}.jpeg" for name in "ab"]
        assert [Path(image.path).resolve() for image in found.images] == paths and not found.rejected


@cases(
    ("", "unreadable_annotation"), ("not xml", "unreadable_annotation"),
    (voc_xml("a")[:-20], "unreadable_annotation"),
    (BOMB.replace("<x>&b;</x>", voc_xml("a")), "unreadable_annotation"),
    ('<?xml version="1.0" encoding="no-such"?>' + voc_xml("a"), "unreadable_annotation"),
    (voc_xml("a", size=("wide", 30)), "malformed_record"), (voc_xml("a", label=""), "malformed_annotation"),
    (voc_xml("a", boxes=[("left", 1, 2, 3)]), "malformed_annotation"),
    (voc_xml("a", extra="<object><name>cat</name></object>"), "malformed_annotation"),
    (voc_xml("a").replace("<truncated>1", "<truncated>very"), "malformed_annotation"),
)  # fmt: skip
def test_a_bad_file_costs_only_its_image(tmp_path, *, text, reason):
    found = _voc_read(write_voc(tmp_path, a=text))
    assert [(r.file, r.record, r.reason) for r in found.rejected] == [("Annotations/a.xml", "a", reason)]
    assert ids(found) == ["b", "c", "d"]


def test_pipes_folders_and_names_that_are_no_utf_8_are_put_aside(tmp_path):
    root, folder = write_voc(tmp_path), tmp_path / "Annotations"
    for name in "bc":
        (folder / f"{name}.xml").unlink()
    os.mkfifo(folder / "b.xml")
    (folder / "c.xml").mkdir()
    write_files(folder, {"deep.xml/e.XML": voc_xml("e"), os.fsdecode(b"f\xff.xml"): voc_xml("f")})
    found = _voc_read(root, {"annotations": "Annotations", "images": "JPEGImages"})
    unread = [(f"Annotations/{name}.xml", "unreadable_annotation") for name in "bc"]
    assert [(r.file, r.reason) for r in found.rejected[:2]] == unread
    assert [(r.record, r.reason) for r in found.rejected[2:]] == [("f\udcff", "malformed_record")]
    assert ids(found) == ["a", "d", "deep.xml/e"]
    listed = _voc_read(root, TRAIN).rejected
    assert [(r.record, r.reason) for r in listed] == [(name, "unreadable_annotation") for name in "bc"]
    os.mkfifo(tmp_path / "ImageSets" / "Main" / "pipe.txt")
    refused(DataError, "found no regular file", _voc_read, root, "ImageSets/Main/pipe.txt")


def _find(root):
    return voc.find(list_folder(str(root)))


def _write_pairs(root, annotations, images, names):
    for name in names:
        write_files(root, {f"{annotations}/{name}.xml": voc_xml(name), f"{images}/{name}.png": "image"})


def test_images_are_where_most_names_agree_and_of_two_sets_the_larger_is_taken(tmp_path):
    _write_pairs(tmp_path / "one", "xml", "all", "abcd")
    write_files(tmp_path / "one", {f"preview/{name}.jpg": "small" for name in "ab"})
    assert voc.find_folders(str(tmp_path / "one")) == {"annotations": "xml", "images": "all"}
    assert _find(tmp_path / "one").evidence == "4 XML files in xml/, 4 images in all/"
    for split, name in {"one": "a", "two": "b"}.items():
        _write_pairs(tmp_path / "two", "xml", f"images/{split}", name)
    assert voc.find_folders(str(tmp_path / "two")) == {"annotations": "xml", "images": "images"}
    tmp_path /= "below"
    write_voc(tmp_path / "VOC2007", "ab")
    write_voc(tmp_path / "VOC2012", "cde")
    layout = _find(tmp_path)
    assert layout.path == str(tmp_path / "VOC2012") and "1 more such sets beside it" in layout.evidence
    refused(DataError, "expected the folder of a data set", voc.find_folders, str(tmp_path / "none"))


def test_other_xml_is_no_annotation(tmp_path):
    for text in ("<annotations><image/></annotations>", "<html/>", "", "\0\1\2"):
        write_files(tmp_path, {"a.xml": text, "a.jpg": "image"})
        assert _find(tmp_path) is None, text
        message = r"found none; correct data\.path or data\.format"
        refused(DataError, message, voc.find_folders, str(tmp_path))
