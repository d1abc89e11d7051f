"""Data sets of Open Images."""

import logging

import numpy as np
import pytest
from PIL import Image

from detection_core.datasets.annotated_images import ImageLabel, MaskFile
from detection_core.datasets.encoding import make_example
from detection_core.datasets.formats import open_images
from detection_core.errors import ConfigError, DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import ids, in_pixels, picture, reading, write_files
from tests.support.memory import memory_below

BOXES = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax"
HEADER = f"{BOXES},IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"
DESCRIPTIONS = "/m/cat,Cat\n/m/dog,Dog\n/m/pet,Pet\n/m/animal,Animal\n"
LABELS = "ImageID,Source,LabelName,Confidence\n"
MASKS = "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax,PredictedIoU,Clicks\n"
_read = reading(open_images)
BOX = "0.25,0.5,0.1,0.4"
WHERE = {"annotations": "train-annotations-bbox.csv", "images": "train"}


def _row(image="a", label="/m/cat", box=BOX, flags="0,0,0,0,0"):
    return f"{image},xclick,{label},1,{box},{flags}"


def _write(root, rows, **more):
    images = {f"train/{name}.jpg": picture(seed=number) for number, name in enumerate("ab")}
    tables = {"bbox": "\n".join([HEADER, *rows]) + "\n", **more}
    files = {f"train-annotations-{name}.csv": text for name, text in tables.items()}
    write_files(root, {**images, **files, "class-descriptions-boxable.csv": DESCRIPTIONS})
    return str(root)


def test_boxes_flags_and_verified_labels_are_kept_under_the_names_of_the_classes(tmp_path):
    rows = [_row(flags="1,0,1,0,1"), _row(label="/m/dog", flags="0,1,-1,1,0")]
    labels = LABELS + "a,verification,/m/pet,1\nb,verification,/m/cat,0\n"
    found = _read(_write(tmp_path, rows, labels=labels))
    assert not found.rejected and found.categories == {"Cat": 0, "Dog": 0}
    first, second = found.images
    assert (first.source_id, first.width, first.height) == ("a", 0, 0) and second.objects == []
    cat, dog = in_pixels(first).objects
    assert cat.name == "Cat" and cat.box == pytest.approx((10, 3, 20, 12)) and cat.label == "line 2"
    assert (cat.occluded, cat.truncated, cat.group_of, cat.depiction) == (1, 0, 1, 0)
    assert (dog.occluded, dog.truncated, dog.group_of, dog.depiction) == (0, 1, None, 1)
    assert first.labels == [ImageLabel("Pet", 1.0)] and second.labels == [ImageLabel("Cat", 0.0)]


def test_a_set_is_found_by_its_columns_and_located_with_all_that_belongs_to_it(tmp_path):
    root = _write(tmp_path, [_row()], labels=LABELS, **{"object-segmentation": MASKS})
    where = {"annotations": "validation-annotations-bbox.csv", "images": "validation"}
    more = {"validation/v.jpg": picture(seed=7), where["annotations"]: f"{HEADER}\n{_row('v')}\n"}
    write_files(tmp_path, more)
    layout = open_images.find(list_folder(root))
    assert (layout.format, layout.splits) == ("open_images", {"train": WHERE, "eval": where})
    names = [path.removeprefix(f"{root}/") for path in open_images.locate(root, WHERE)]
    tables = [f"train-annotations-{name}.csv" for name in ("bbox", "labels", "object-segmentation")]
    assert sorted(names) == ["class-descriptions-boxable.csv", "train", *tables]
    assert ids(_read(root, where)) == ["v"]


def test_rows_of_missing_images_are_told_and_quotes_marks_and_windows_ends_read(tmp_path, caplog):
    root = _write(tmp_path, [_row("elsewhere"), _row("a"), _row("gone")])
    with caplog.at_level(logging.WARNING):
        found = _read(root)
    assert ids(found) == ["a"] and not found.rejected and "2 rows are of images" in caplog.text
    refused(DataError, "found none of them", _read, _write(tmp_path, [_row("elsewhere")]), WHERE)
    root = _write(tmp_path, [], bbox=f'\ufeff{HEADER}\r\n"a",xclick,"/m/cat",1,{BOX},0,0,0,0,0\r\n')
    (tmp_path / "class-descriptions-boxable.csv").write_text('LabelName,DisplayName\n/m/cat,"Cat, tame"\n')
    [image] = _read(root, WHERE).images
    assert [item.name for item in image.objects] == ["Cat, tame"]


def test_masks_belong_to_the_object_with_their_box(tmp_path):
    rows = [_row(box="0.5,0.9,0.5,0.9"), _row(), _row(label="/m/dog")]
    masks = MASKS + f"a_m.png,a,/m/cat,id,{BOX},0.8,\nnot_fetched.png,a,/m/dog,id,{BOX},0.8,\n"
    root = _write(tmp_path, rows, **{"object-segmentation": masks})
    path = tmp_path / "masks" / "a_m.png"
    path.parent.mkdir()
    inside = np.zeros((15, 20), np.uint8)
    inside[2:5, 5:9] = 255
    Image.fromarray(inside).save(path)
    [image] = _read(root).images
    assert [item.mask for item in image.objects] == [None, MaskFile(str(path)), None]
    data = make_example(image, {"Cat": 1, "Dog": 2}).data
    assert b"image/object/mask" in data and b"image/object/mask/weight" in data


HIERARCHY = """{"LabelName": "/m/0bl9f", "Subcategory": [
  {"LabelName": "/m/animal", "Part": [{"LabelName": "/m/tail"}], "Subcategory": [
    {"LabelName": "/m/pet", "Subcategory": [{"LabelName": "/m/cat"}, {"LabelName": "/m/dog"}]},
    {"LabelName": "/m/beast", "Subcategory": [{"LabelName": "/m/cat"}]}]}]}"""


def test_a_hierarchy_expands_as_that_of_the_object_detection_api(tmp_path):
    labels = LABELS + "b,verification,/m/pet,0\nb,verification,/m/dog,1\n"
    root = _write(tmp_path, [_row(), _row(label="/m/plant")], labels=labels)
    (tmp_path / "hierarchy.json").write_text(HIERARCHY)
    where = {**WHERE, "hierarchy": "hierarchy.json"}
    first, second = _read(root, where).images
    # oid_hierarchical_labels_expansion.py: an object is all that contains its class, by every way, but
    # not the root; a class that is not there is none of those in it, one that is there all above it.
    assert sorted(item.name for item in first.objects) == ["/m/beast", "/m/plant", "Animal", "Cat", "Pet"]
    assert {item.box for item in first.objects} == {first.objects[0].box}
    expected = {"Animal": [1.0], "Cat": [0.0], "Dog": [0.0, 1.0], "Pet": [0.0, 1.0]}
    assert sorted(second.labels) == [(name, score) for name, found in expected.items() for score in found]
    assert f"{root}/hierarchy.json" in open_images.locate(root, where)
    for text in ("[]", "{", '{"Subcategory": [{}]}', '{"Subcategory": 5}', '{"Subcategory": [' * 5000):
        (tmp_path / "hierarchy.json").write_text(text)
        refused(DataError, "expected a hierarchy", _read, root, where)
    refused(DataError, "found nothing", _read, root, {**WHERE, "hierarchy": "no.json"})


def test_a_row_of_any_wrong_form_costs_only_itself_or_its_image(tmp_path):
    wrong_box, wrong_flag = _row(box="0.25,0.5,0.1,x"), _row(flags="2,0,0,0,0")
    rows = {wrong_box: "a", wrong_flag: "a", "a,xclick,/m/cat": "2", _row() + ",more": "2"}
    for row, record in rows.items():
        found = _read(_write(tmp_path, [row, _row("b")]))
        assert ids(found) == ["b"] and "line 2" in found.rejected[0].detail, row
        assert [(r.record, r.reason) for r in found.rejected] == [(record, "malformed_annotation")]
    for text in ("nan", "x", "-1", "7", ""):  # a confidence that is none
        found = _read(_write(tmp_path, [_row(), _row("b")], labels=f"{LABELS}a,machine,/m/cat,{text}\n"))
        assert ids(found) == ["b"] and len(found.rejected) == 1, text


@cases(
    ("", "none"), ("ImageID,LabelName,XMin,XMax,YMin\n", "the columns"), (f"{HEADER},XMin\n", "each once"),
    (f'{HEADER}\na,"{"x" * 200_000}"\n', "field larger"), (f"{HEADER}\na,\xff\n", "UTF-8"),
)  # fmt: skip
def test_a_file_that_is_no_table_is_one_error_that_names_it(tmp_path, *, text, message):
    root = _write(tmp_path, [_row()])
    (tmp_path / "train-annotations-bbox.csv").write_bytes(text.encode("latin-1"))
    assert root in refused(DataError, message, _read, root, WHERE).where
    refused(ConfigError, "annotations", open_images.locate, root, {"boxes": "x"})


def test_memory_does_not_grow_with_the_rows(tmp_path):
    lines = [_row("ab"[n % 2], box=f"0.1,0.2,0.1,{0.2 + n / 1e6}") for n in range(30_000)]
    root = _write(tmp_path, lines)
    open_images.read(root, WHERE)
    with memory_below(4 << 20):
        found = open_images.read(root, WHERE)
    assert sum(len(image.objects) for image in found.images) == len(lines)
