"""Data sets in CSV files."""

import pytest

from detection_core.datasets.formats import csv_boxes
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import DataError
from tests.support.cases import cases
from tests.support.dataset_files import in_pixels, picture, reading, reasons, subfolder, whole, write_files

_read = reading(csv_boxes)

HEADER = "filename,width,height,class,xmin,ymin,xmax,ymax\n"


def test_the_tutorials_two_files_are_two_splits(tmp_path):
    for split in ("train", "test"):
        write_files(tmp_path, {f"data/{split}_labels.csv": f"{HEADER}{split}.jpg,40,30,cat,1,2,3,4\n"})
        write_files(tmp_path, {f"images/{split}/{split}.jpg": picture()})
    layout = find_layout(str(tmp_path))
    names = {"train": "train", "eval": "test"}
    assert layout.splits == {
        split: {"annotations": f"data/{name}_labels.csv", "images": f"images/{name}"}
        for split, name in names.items()
    }
    for split, location in zip(("train", "test"), layout.splits.values(), strict=True):
        (image,) = _read(layout.path, location).images
        assert image.path == str(tmp_path / "images" / split / f"{split}.jpg")
    both = _read(layout.path)
    assert sorted(image.source_id for image in both.images) == ["test/test.jpg", "train/train.jpg"]


def test_an_importer_s_sets_are_splits_and_its_boxes_fractions(tmp_path):
    box = "0.25,0.5,,,0.5,1.0,,"
    words = enumerate(("TRAIN", "VALIDATION", "TEST"))
    lines = [f"{word},gs://bucket/some/{n}.jpg,cat,{box}" for n, word in words]
    lines += ["UNASSIGNED,gs://bucket/some/3.jpg,,,,,,,,,", f"TRAIN,gs://bucket/some/none.jpg,cat,{box}"]
    write_files(tmp_path, {"import.csv": "\n".join(lines)})
    write_files(tmp_path, {f"pictures/{n}.jpg": picture(seed=n) for n in range(4)})
    layout = find_layout(str(tmp_path))
    assert {split: where["subset"] for split, where in layout.splits.items()} == {
        "train": "TRAIN", "eval": "VALIDATION", "test": "TEST"
    }  # fmt: skip
    found = _read(layout.path, layout.splits["train"])
    sizes = {image.filename: (image.width, image.height) for image in found.images}
    assert sizes == dict.fromkeys(("0.jpg", "3.jpg", "some/none.jpg"), (0, 0))
    assert in_pixels(found.images[0]).objects[0].box == (10, 15, 20, 30) and found.images[1].objects == []
    assert found.rejected == []
    assert len(_read(layout.path, layout.splits["eval"]).images) == 1


def test_boxes_of_any_row_are_those_of_its_image_in_pixels_or_fractions(tmp_path):
    write_files(
        tmp_path, {"labels.csv": f"{HEADER}a.jpg,40,30,cat,0.25,0.5,0.5,1\na.jpg,40,30,cat,0,0,1,1\n"}
    )
    write_files(tmp_path, {"a.jpg": picture()})
    (image,) = csv_boxes.read(str(tmp_path), None).images
    assert [item.box for item in in_pixels(image).objects] == [(10, 15, 20, 30), (0, 0, 40, 30)]
    write_files(tmp_path, {"labels.csv": f"{HEADER}a.jpg,40,30,cat,0,0,1,1\n"})
    (image,) = csv_boxes.read(str(tmp_path), None).images
    assert not image.in_fractions and image.objects[0].box == (0, 0, 1, 1)
    below = subfolder(tmp_path, 1)
    rows = "a.jpg,40,30,cat,1,2,3,4\nb.jpg,40,30,,,,,\na.jpg,40,30,dog,5,6,7,8\n"
    write_files(below, {"all.csv": b"\xef\xbb\xbf" + (HEADER + rows).encode(), "a.jpg": picture()})
    found = _read(below)
    assert [len(image.objects) for image in found.images] == [2, 0]
    assert found.categories == {"cat": 0, "dog": 0}


def test_a_row_that_cannot_be_read_costs_its_image_and_another_encoding_the_file(tmp_path):
    write_files(tmp_path, {"labels.csv": f'{HEADER}a.jpg,40,30,cat,1,2,3,4\n"b.jpg",40,30,cat,1,2,3,x\n'})
    write_files(tmp_path, {f"{name}.jpg": picture() for name in "abc"})
    found = csv_boxes.read(str(tmp_path), None)
    assert [image.filename for image in found.unannotated] == ["c.jpg"] and len(found.rejected) == 1
    below = subfolder(tmp_path, 1)
    write_files(below, {"all.csv": (HEADER + "grün.jpg,40,30,cat,1,2,3,4").encode("latin-1")})
    with pytest.raises(DataError, match=r"all\.csv: expected CSV in UTF-8"):
        _read(below, {"annotations": "all.csv", "images": "."})


def test_images_may_be_named_without_their_suffix(tmp_path):
    rows = "image_id,class_name,x_min,y_min,x_max,y_max\n0,cat,1,2,3,4\n1,cat,1,2,3,4\n"
    write_files(tmp_path, {"train.csv": rows})
    write_files(tmp_path, {f"train_images/{n}.jpg": picture(seed=n) for n in range(2)})
    write_files(tmp_path, {f"test_images/t{n}.jpg": picture(seed=n) for n in range(3)})
    layout = find_layout(str(tmp_path))
    assert layout.images == 2 and "2 images in train_images/" in layout.evidence
    found = csv_boxes.read(layout.path, None)
    images = list(found.images)
    assert [image.filename for image in images] == ["0.jpg", "1.jpg"] and not found.unannotated


@cases(
    ("../no.jpg,40,30,cat,1,2,3,4", "path_outside"), ('"b\nc.jpg",40,30,cat,1,2,3,4', "malformed_record"),
    ("b.jpg,40.5,30,cat,1,2,3,4", "malformed_record"), ("b.jpg,40,30,cat,1,2,3,x", "malformed_annotation"),
    ("a.jpg,41,30,cat,1,2,3,4", "malformed_record"), ('b.jpg,40,30,"c\nat",1,2,3,4', "malformed_record"),
)  # fmt: skip
def test_a_bad_row_costs_only_its_image(tmp_path, *, row, reason):
    write_files(tmp_path, {"all.csv": f"{HEADER}a.jpg,40,30,cat,1,2,3,4\nc.jpg,40,30,cat,1,2,3,4\n{row}\n"})
    for name in "abc":
        write_files(tmp_path, {f"{name}.jpg": picture()})
    found = _read(tmp_path)
    assert reasons(found) == [reason] and "c.jpg" in [image.filename for image in found.images]


def test_a_column_may_tell_the_split(tmp_path):
    rows = ["split,filename,class,xmin,ymin,xmax,ymax"]
    rows += [f"{split},{split}.jpg,cat,1,2,30,20" for split in ("train", "valid", "test")]
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.jpg").write_bytes(picture())
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    layout = find_layout(str(tmp_path))
    assert layout.splits["eval"] == {"annotations": "labels.csv", "images": ".", "subset": "valid"}
    for split, name in {"train": "train", "eval": "valid", "test": "test"}.items():
        found = whole(csv_boxes.read(str(tmp_path), layout.splits[split]))
        assert [image.filename for image in found.images] == [f"{name}.jpg"]
