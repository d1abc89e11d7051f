from detection_core.datasets.formats import csv_boxes
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import ids, in_pixels, picture, reading, reasons, subfolder, write_files

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
    assert found.rejected == []
    assert len(_read(layout.path, layout.splits["eval"]).images) == 1


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
    images = {f"{name}.jpg": picture() for name in names.values()}
    write_files(below, {"labels.csv": table, **images})
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
