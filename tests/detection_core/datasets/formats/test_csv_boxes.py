"""Boxes in CSV: lines, rows and files."""

import io
import json
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.formats import csv_boxes, csv_rows, open_images_files
from detection_core.datasets.formats.csv_rows import Row, decode_head, open_csv, read_rows, split_rows
from detection_core.datasets.formats.open_images_files import find_boxes, find_companions, read_hierarchy
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import ids, in_pixels, picture, reading, reasons, subfolder, write_files
from tests.support.memory import memory_below

_read = reading(csv_boxes)
HEADER = "filename,width,height,class,xmin,ymin,xmax,ymax\n"


def test_the_tutorials_two_files_are_two_splits(tmp_path):
    names = {"train": "train", "eval": "test"}
    for name in names.values():
        rows = f"{HEADER}{name}.jpg,40,30,cat,1,2,3,4\n"
        write_files(tmp_path, {f"data/{name}_labels.csv": rows, f"images/{name}/{name}.jpg": picture()})
    layout = find_layout(str(tmp_path))
    for split, name in names.items():
        where = {"annotations": f"data/{name}_labels.csv", "images": f"images/{name}"}
        assert layout.splits[split] == where and len(layout.splits) == 2
        (image,) = _read(layout.path, where).images
        assert image.path == str(tmp_path / "images" / name / f"{name}.jpg")
    assert sorted(ids(_read(layout.path))) == ["test/test.jpg", "train/train.jpg"]


def test_an_importer_s_sets_are_splits_and_its_boxes_fractions(tmp_path):
    box = "0.25,0.5,,,0.5,1.0,,"
    words = enumerate(("TRAIN", "VALIDATION", "TEST"))
    lines = [f"{word},gs://bucket/some/{n}.jpg,cat,{box}" for n, word in words]
    lines += ["UNASSIGNED,gs://bucket/some/3.jpg,,,,,,,,,", f"TRAIN,gs://bucket/some/none.jpg,cat,{box}"]
    write_files(tmp_path, {"import.csv": "\n".join(lines)})
    write_files(tmp_path, {f"pictures/{n}.jpg": picture(seed=n) for n in range(4)})
    layout = find_layout(str(tmp_path))
    subsets = {split: where["subset"] for split, where in layout.splits.items()}
    assert subsets == {"train": "TRAIN", "eval": "VALIDATION", "test": "TEST"}
    found = _read(layout.path, layout.splits["train"])
    sizes = {image.filename: (image.width, image.height) for image in found.images}
    assert sizes == dict.fromkeys(("0.jpg", "3.jpg", "some/none.jpg"), (0, 0))
    assert in_pixels(found.images[0]).objects[0].box == (10, 15, 20, 30) and found.images[1].objects == []
    assert found.rejected == [] and len(_read(layout.path, layout.splits["eval"]).images) == 1


def test_boxes_of_any_row_are_those_of_its_image_and_a_row_that_cannot_be_read_costs_it(tmp_path):
    row = "a.jpg,40,30,cat"
    for text, boxes, in_fractions in (
        (f"{row},0.25,0.5,0.5,1\n{row},0,0,1,1\n", [(10, 15, 20, 30), (0, 0, 40, 30)], True),
        (f"{row},0,0,1,1\n", [(0, 0, 1, 1)], False),
    ):
        write_files(tmp_path, {"all.csv": HEADER + text, "a.jpg": picture()})
        (image,) = csv_boxes.read(str(tmp_path), None).images
        found = in_pixels(image) if in_fractions else image
        assert image.in_fractions == in_fractions and [item.box for item in found.objects] == boxes
    rows = f"{row},1,2,3,4\nb.jpg,40,30,,,,,\na.jpg,40,30,dog,5,6,7,8\n"
    write_files(tmp_path, {"all.csv": b"\xef\xbb\xbf" + (HEADER + rows).encode()})
    found = _read(tmp_path)
    assert [len(image.objects) for image in found.images] == [2, 0]
    assert found.categories == {"cat": 0, "dog": 0}
    rows = 'a.jpg,40,30,cat,1,2,3,4\n"b.jpg",40,30,cat,1,2,3,x\n'
    write_files(tmp_path, {"all.csv": HEADER + rows, **{f"{name}.jpg": picture() for name in "abc"}})
    found = csv_boxes.read(str(tmp_path), None)
    assert [image.filename for image in found.unannotated] == ["c.jpg"] and len(found.rejected) == 1
    write_files(tmp_path, {"all.csv": (HEADER + "grün.jpg,40,30,cat,1,2,3,4").encode("latin-1")})
    where = {"annotations": "all.csv", "images": "."}
    refused(DataError, r"all\.csv: expected CSV in UTF-8", _read, tmp_path, where)


def test_images_may_be_named_without_their_suffix_and_a_column_tells_the_split(tmp_path):
    rows = "image_id,class_name,x_min,y_min,x_max,y_max\n0,cat,1,2,3,4\n1,cat,1,2,3,4\n"
    names = [*(f"train_images/{n}.jpg" for n in range(2)), *(f"test_images/t{n}.jpg" for n in range(3))]
    write_files(tmp_path, {"train.csv": rows, **dict.fromkeys(names, picture())})
    layout = find_layout(str(tmp_path))
    assert layout.images == 2 and "2 images in train_images/" in layout.evidence
    found = csv_boxes.read(layout.path, None)
    images = list(found.images)
    assert [image.filename for image in images] == ["0.jpg", "1.jpg"] and not found.unannotated
    below, names = subfolder(tmp_path, 1), {"train": "train", "eval": "valid", "test": "test"}
    rows = [f"{name},{name}.jpg,cat,1,2,30,20" for name in names.values()]
    table = "\n".join(["split,filename,class,xmin,ymin,xmax,ymax", *rows])
    write_files(below, {"labels.csv": table, **{f"{name}.jpg": picture() for name in names.values()}})
    layout = find_layout(str(below))
    assert layout.splits["eval"] == {"annotations": "labels.csv", "images": ".", "subset": "valid"}
    for split, name in names.items():
        found = _read(below, layout.splits[split])
        assert [image.filename for image in found.images] == [f"{name}.jpg"]


@cases(
    ("../no.jpg,40,30,cat,1,2,3,4", "path_outside"), ('"b\nc.jpg",40,30,cat,1,2,3,4', "malformed_record"),
    ("b.jpg,40.5,30,cat,1,2,3,4", "malformed_record"), ("b.jpg,40,30,cat,1,2,3,x", "malformed_annotation"),
    ("a.jpg,41,30,cat,1,2,3,4", "malformed_record"), ('b.jpg,40,30,"c\nat",1,2,3,4', "malformed_record"),
)  # fmt: skip
def test_a_bad_row_costs_only_its_image(tmp_path, *, row, reason):
    text = f"{HEADER}a.jpg,40,30,cat,1,2,3,4\nc.jpg,40,30,cat,1,2,3,4\n{row}\n"
    write_files(tmp_path, {"all.csv": text, **{f"{name}.jpg": picture() for name in "abc"}})
    found = _read(tmp_path)
    assert reasons(found) == [reason] and "c.jpg" in [image.filename for image in found.images]


@cases("utf-8", "utf-8-sig", "utf-16")
def test_marks_of_unicode_are_no_part_of_the_first_column(tmp_path, *, encoding):
    (tmp_path / "a.csv").write_bytes("grün,2\r\n".encode(encoding))
    with open_csv(str(tmp_path / "a.csv")) as text:
        assert list(split_rows(text, "")) == [(1, ["grün", "2"])]
    assert decode_head("grün".encode(encoding)).read() == "grün"


def test_another_encoding_is_refused_and_rows_of_any_number_have_the_bound_each(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n" * 1_000_000 + "grün".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.csv: expected CSV in UTF-8"), open_csv(str(path)) as text:
        list(split_rows(text, ""))
    refused(UnicodeError, "", lambda: decode_head("grün".encode("latin-1")))
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("pipe", "regular file"), ("none", "No such file")):
        refused(DataError, f"{name}: expected a CSV file, .*{said}", open_csv(str(tmp_path / name)).__enter__)
    monkeypatch.setattr(csv_rows, "MAX_ROW", 10)
    rows = split_rows(io.StringIO("c,d\r\ne,f\r\n" * 5, newline=""), "", "a,b\r\n")
    assert [row for _, row in rows] == [["a", "b"], *[["c", "d"], ["e", "f"]] * 5]


@cases("x", '"a\nb",')
def test_a_row_without_end_is_not_read_to_its_end(tmp_path, monkeypatch, *, unit):
    monkeypatch.setattr(csv_rows, "MAX_ROW", 1 << 14)
    (tmp_path / "a.csv").write_text(unit * (1 << 22))
    with memory_below(8 << 20), open_csv(str(tmp_path / "a.csv")) as text:
        refused(DataError, "more than 16,384 char", lambda: list(split_rows(text, "")))


def _rows(text):
    return list(read_rows(io.StringIO(text, newline=""), "x.csv"))


@cases(
    (f"{HEADER}a.jpg,40,30,cat,1,2,3,4",
     (2, "", "a.jpg", (40, 30), "cat", (1, 2, 3, 4), False)),
    ('"xmin" ,ymin,X_MAX,y max,Label,Image\n1,2,3,4,"a, ""b""",x.png\n\n',
     (2, "", "x.png", (0, 0), 'a, "b"', (1, 2, 3, 4), False)),
    ("image;label;x1;y1;x2;y2\na.jpg;cat;1,5;2;3;4",
     (2, "", "a.jpg", (0, 0), "cat", (1.5, 2, 3, 4), False)),
    (f"{HEADER}a.jpg,40,30,,,,,", (2, "", "a.jpg", (40, 30), "", None, False)),
    ("a/b.jpg,1,2,3,4,cat", (1, "", "a/b.jpg", (0, 0), "cat", (1, 2, 3, 4), False)),
    ("a/b.jpg,,,,,", (1, "", "a/b.jpg", (0, 0), "", None, False)),
    ("TRAIN,gs://bucket/in/a.jpg,cat,0.1,0.2,,,0.3,0.4,,",
     (1, "TRAIN", "in/a.jpg", (0, 0), "cat", (0.1, 0.2, 0.3, 0.4), True)),
    ("test,gs://bucket/a.jpg,cat,0.1,0.2,0.3,0.2,0.3,0.4,0.1,0.4",
     (1, "TEST", "a.jpg", (0, 0), "cat", (0.1, 0.2, 0.3, 0.4), True)),
    ("gs://bucket/a.jpg,cat,0.1,0.2,,,0.3,0.4,,",
     (1, "", "a.jpg", (0, 0), "cat", (0.1, 0.2, 0.3, 0.4), True)),
    ("UNASSIGNED,gs://bucket/a.jpg,,,,,,,,,", (1, "UNASSIGNED", "a.jpg", (0, 0), "", None, True)),
    (",gs://bucket/a.jpg", (1, "", "a.jpg", (0, 0), "", None, True)),
)  # fmt: skip
def test_rows_of_every_kind_are_read(*, text, row):
    assert _rows(text) == [Row(*row)]


@cases(
    ("a.jpg,40,30,cat,1,2,3,", "xmax|ymax"), ("a.jpg,40,30,cat,1,2,three,4", "'three'"),
    ("a.jpg,40,30,,1,2,3,4", "expected a class"), ("a.jpg,40,30,cat,nan,2,3,4", "'nan'"),
    ("a.jpg,wide,30,cat,1,2,3,4", "width"),
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_told_by_its_line(*, row, said):
    good = "b.jpg,40,30,cat,1,2,3,4"
    first, (line, error), last = _rows(f"{HEADER}{good}\n{row}\n{good}")
    assert line == 3 and error.reason == "malformed_annotation" and first.line == 2 and last.line == 4
    assert re.search(f"line 3: .*{said}", str(error))


def test_a_quoted_name_may_hold_a_line_break_and_other_columns_corners_and_long_fields_are_refused():
    (row,) = _rows(f'{HEADER}"a\nb.jpg",40,30,cat,1,2,3,4')
    assert row.image == "a\nb.jpg" and row.line == 3
    for numbers in ("0.1,0.2,0.3", "0.1,0.2,0.3,0.4,0.5,0.6", ""):
        ((line, error),) = _rows(f"TRAIN,gs://b/a.jpg,cat,{numbers}")
        assert line == 1 and "corners" in error.detail
    for text in ("", "a,b,c\n1,2,3", "filename,class\na.jpg,cat", "ImageID,Source,LabelName\n1,2,3"):
        refused(DataError, r"x\.csv: expected the columns filename, class", _rows, text)
    message = r"x\.csv:2: expected CSV, found a row that cannot be parsed"
    refused(DataError, message, _rows, f"{HEADER}{'a' * 200_000},40,30,cat,1,2,3,4")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_rows_or_reasons(text):
    for row in _rows(f"{HEADER}{text}"):
        assert isinstance(row, Row) or row[1].reason == "malformed_annotation"


BOXES = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax"
LABELS = "ImageID,Source,LabelName,Confidence"
MASKS = "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax"


def test_files_are_told_apart_by_their_columns_and_splits_by_their_names(tmp_path):
    tables = {"train_boxes": f"{BOXES}\na,x,/m/1,1,0,1,0,1", "test_boxes": BOXES}
    tables |= {"train_labels": LABELS, "validation_labels": LABELS, "train_masks": MASKS, "other": "a,b"}
    tables |= dict.fromkeys(("class_descriptions", "class_descriptions_boxable"), "/m/1,One")
    write_files(tmp_path, {f"{name.replace('_', '-')}.csv": f"{text}\n" for name, text in tables.items()})
    listing = list_folder(str(tmp_path))
    found = find_boxes(listing)
    assert {path: list(file.names) for path, file in found.items()} == {"train-boxes.csv": ["a.jpg"]}
    more = find_companions(listing, "train-boxes.csv")
    assert more.descriptions == "class-descriptions-boxable.csv"
    assert (more.labels, more.masks) == (["train-labels.csv"], ["train-masks.csv"])


def test_rows_have_the_line_in_which_they_end_and_classes_the_ancestors_of_all_places(tmp_path):
    (tmp_path / "a.csv").write_text('ImageID,LabelName\na,"b\nc"\n\nd\ne,f\n')
    path = str(tmp_path / "a.csv")
    (first, second), (third, fault), (fifth, last) = open_images_files.read_rows(path, ["ImageID"])
    assert (first, third, fifth) == (3, 5, 6) and second == {"ImageID": "a", "LabelName": "b\nc"}
    assert isinstance(fault, Rejected) and "line 5: expected 2 fields, found 1" in fault.detail
    assert last == {"ImageID": "e", "LabelName": "f"}
    for text in ("/m/1", "/m/1,One,Two", "/m/1,", "/m/1,a\x07"):
        (tmp_path / "a.csv").write_text(f"/m/0,Zero\n{text}\n")
        refused(DataError, "a label and a name in line 2", open_images_files.read_descriptions, path)
    leaf = {"LabelName": "cat"}
    tree = {"LabelName": "all", "Subcategory": [
        {"LabelName": "animal", "Subcategory": [{"LabelName": "pet", "Subcategory": [leaf]}]},
        {"LabelName": "thing", "Part": [{"LabelName": "no part"}], "Subcategory": [leaf]},
    ]}  # fmt: skip
    (tmp_path / "tree.json").write_text(json.dumps(tree))
    found = read_hierarchy(str(tmp_path / "tree.json"))
    assert found.implied("cat") == ["pet", "animal", "thing"]
    assert found.implied("animal", 0.0) == ["pet", "cat"] and found.implied("animal") == []
    assert found.implied("all", 0.0) == found.implied("no part") == ()
    for leaves, depths in ((9_000, 30), (0, 100)):  # too broad, and too deep
        tree = {"LabelName": "x", "Subcategory": [{"LabelName": str(i)} for i in range(leaves)]}
        for depth in range(depths):
            tree = {"LabelName": f"d{depth}", "Subcategory": [tree]}
        (tmp_path / "tree.json").write_text(json.dumps(tree))
        refused(DataError, "expected a hierarchy", read_hierarchy, str(tmp_path / "tree.json"))
