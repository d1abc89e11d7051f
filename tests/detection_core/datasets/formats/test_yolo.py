"""YOLO: label files, where they lie, and the file of the classes."""

import json
import os
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.encoding import make_example
from detection_core.datasets.formats import yolo, yolo_layout
from detection_core.datasets.formats.yolo_layout import YoloSet, read_set
from detection_core.datasets.layout_search import find_layout
from detection_core.datasets.layouts import RATIOS
from detection_core.datasets.readers import READERS
from detection_core.errors import ConfigError, DataError
from detection_core.storage.folder_listing import FolderListing, list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import in_pixels, picture, reading, reasons, subfolder, write_files

_read = reading(yolo)
YAML = "path: ../datasets/mine\ntrain: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog\n"
DIVIDED = {"train": {"data": "data.yaml", "split": "train"}, "eval": {"data": "data.yaml", "split": "val"}}
NAMED = {"train": {"names": "classes.txt", "images": "images/train"},
         "eval": {"names": "classes.txt", "images": "images/val"}}  # fmt: skip
DARKNET = {name: {**where, "data": "obj.data"} for name, where in DIVIDED.items()}


def write_split(root, images="images/train", labels="labels/train", count=3, text="0 0.5 0.5 0.5 0.2\n"):
    names = [f"{images.replace('/', '_')}{number}" for number in range(count)]
    write_files(root, {f"{images}/{name}.jpg": picture(seed=n) for n, name in enumerate(names)})
    if labels:
        write_files(root, {f"{labels}/{name}.txt": text for name in names})


def _present(root, data=YAML):
    write_files(root, {"data.yaml": data})
    write_split(root)
    write_split(root, "images/val", "labels/val")


def _exported(root):
    text = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\nnc: 2\nnames: [cat, dog]\n"
    write_files(root, {"data.yaml": text})
    write_split(root, "train/images", "train/labels")
    write_split(root, "valid/images", "valid/labels")


def _elsewhere(root):
    text = "path: /content/mine\ntrain: [images/train, /content/mine/images/more]\nval: C:\\mine\\images\\val"
    write_files(root, {"data.yaml": text + "\nnames: [cat, dog]\n"})
    for name in ("train", "more", "val"):
        write_split(root, f"images/{name}", f"labels/{name}", count=2)


def _lists(root):
    _present(root, YAML.replace("images/train", "train.txt").replace("images/val", "lists/val.txt"))
    train = "".join(f"./images/train/images_train{n}.jpg\n" for n in range(3))
    write_files(root, {"train.txt": train, "lists/val.txt": "/home/me/mine/images/val/images_val0.jpg\n\n"})


def _darknet(root):
    data = "classes = 2\ntrain = data/train.txt\nvalid=data/valid.txt\nnames = data/obj.names\n"
    write_split(root, "obj_train_data", "obj_train_data")
    names = [f"data/obj_train_data/obj_train_data{n}.jpg\n" for n in range(3)]
    lists = {"train.txt": "".join(names[:2]), "valid.txt": names[2]}
    write_files(root, {"obj.data": data, "obj.names": "cat\ndog\n", **lists})


def _label_img(root, images="photos", labels="photos"):
    write_files(root, {"classes.txt": "cat\ndog\n"})
    write_split(root, images, labels)


def _label_studio(root):
    write_files(root, {"notes.json": json.dumps({"categories": []})})
    _label_img(root, "images", "labels")


def _folders(root):
    _label_img(root, "images/train", "labels/train")
    write_split(root, "images/val", "labels/val")


@cases(
    (_present, DIVIDED, 3, 3), (_exported, DIVIDED, 3, 3), (_elsewhere, DIVIDED, 4, 2),
    (_lists, DIVIDED, 3, 1), (_darknet, DARKNET, 2, 1), (_label_img, RATIOS, 3, 0),
    (_label_studio, RATIOS, 3, 0), (_folders, NAMED, 3, 3),
)  # fmt: skip
def test_a_set_of_any_form_is_found_and_read(tmp_path, *, written, splits, train, held_out):
    written(tmp_path)
    layout = find_layout(str(tmp_path))
    assert (layout.format, layout.path, layout.splits) == ("yolo", str(tmp_path), splits)
    assert layout.images == train + held_out and "with 2 classes" in layout.evidence
    locations = [None] if splits == RATIOS else splits.values()
    for location, count in zip(locations, (train, held_out), strict=False):
        found = _read(layout.path, location)
        assert len(found.images) == count and not found.rejected and found.categories == {"cat": 1, "dog": 2}
        assert all(image.in_fractions and not image.width for image in found.images)
        assert all(in_pixels(image).objects[0].box == (10, 12, 30, 18) for image in found.images)
        assert all((tmp_path / image.path).is_file() for image in found.images)
        assert all(yolo.locate(layout.path, location))


def test_a_split_is_its_own_and_an_image_without_a_label_file_shows_nothing(tmp_path):
    _present(tmp_path)
    names = ("data.yaml", "images/train", "labels/train")
    assert yolo.locate(str(tmp_path), DIVIDED["train"]) == [str(tmp_path / name) for name in names]
    assert yolo.locate(str(tmp_path), None) == [str(tmp_path / "data.yaml"), str(tmp_path)]
    write_files(tmp_path, {"data.yaml": YAML.replace("images/val", "images/train")})
    assert find_layout(str(tmp_path)).splits == RATIOS
    tmp_path = subfolder(tmp_path, 1)
    files = {f"images/train/{name}.jpg": picture() for name in ("empty", "blank")}
    write_files(tmp_path, {"data.yaml": YAML, "labels/train/blank.txt": "\n", **files})
    write_split(tmp_path)
    write_split(tmp_path, "images/val", "")
    found = _read(tmp_path, DIVIDED["train"])
    assert [len(image.objects) for image in found.images] == [0, 1, 1, 1]
    assert [image.filename for image in found.unannotated] == ["images/train/empty.jpg"]
    assert READERS["yolo"].background
    refused(DataError, "expected label files, found none for 3 images", _read, tmp_path, DIVIDED["eval"])


def test_an_outline_is_a_mask_with_the_box_around_it_and_keypoints_follow_the_box(tmp_path):
    write_files(tmp_path, {"classes.txt": "cat\ndog"})
    write_split(tmp_path, "images", "labels", 1, "1 0.25 0.5 0.5 0.5 0.5 0.9\n0 .5 .5 1 1\n")
    outlined, boxed = in_pixels(_read(tmp_path).images[0]).objects
    assert outlined.name == "dog" and outlined.box == (10, 15, 20, 27)
    assert [list(ring) for ring in outlined.mask.rings] == [[10, 15, 20, 15, 20, 27]]
    assert boxed.box == (0, 0, 40, 30) and boxed.mask is None
    for dims, values in ((3, "0.5 0.5 2 0 0 0"), (2, "0.5 0.5 0 0")):
        write_files(tmp_path, {"data.yaml": f"{YAML}kpt_shape: [2, {dims}]\nkpt_names:\n  0: [nose, tail]\n"})
        write_split(tmp_path, count=1, text=f"0 .5 .5 .5 .2 {values}\n0 .5 .5 .5 .2")
        found = _read(tmp_path, DIVIDED["train"])
        points = [item.keypoints for item in in_pixels(found.images[0]).objects]
        assert points == [[(20, 15, 2), (0, 0, 0)], None], dims
        assert found.keypoint_names == {"cat": ["nose", "tail"], "dog": ["keypoint_0", "keypoint_1"]}


@cases(
    ("0 .5 .5 .5", "malformed_annotation"), ("0 .5 .5 .5 .5 .9", "malformed_annotation"),
    ("cat .5 .5 .5 .5", "malformed_annotation"), ("7 .5 .5 .5 .5", "unknown_category"),
    ("0.5 .5 .5 .5 .5", "unknown_category"), ("-1 .5 .5 .5 .5", "unknown_category"),
    ("0 nan .5 .5 .5", "box_not_finite"), ("0 20 20 10 10", "box_outside"),
    (b"\xff\xfe\0", "unreadable_annotation"), (None, "unreadable_annotation"),
)  # fmt: skip
def test_a_bad_line_or_a_folder_in_the_place_of_a_file_costs_only_its_image(tmp_path, *, text, reason):
    write_files(tmp_path, {"classes.txt": "cat"})
    write_split(tmp_path, "images", "labels", 2)
    label = tmp_path / "labels" / "images1.txt"
    label.unlink()
    label.mkdir() if text is None else write_files(tmp_path, {"labels/images1.txt": text})
    found = _read(tmp_path)
    told = [(r.file, r.record, r.reason) for r in found.rejected]
    assert told == [("labels/images1.txt", "images/images1.jpg", reason)] and len(found.images) == 1


def test_an_image_is_looked_at_when_it_is_encoded_and_not_when_its_labels_are_read(tmp_path):
    names = ("bad.jpg", "cut.jpg", "none.jpg", "../../../secret.jpg", "images_train0.jpg")
    files = {"data.yaml": YAML.replace("images/train", "train.txt")}
    files |= {"images/train/bad.jpg": b"no image", "images/train/cut.jpg": picture()[:80]}
    write_files(tmp_path, {**files, "train.txt": "\n".join(f"images/train/{name}" for name in names)})
    write_split(tmp_path, count=1)
    write_split(tmp_path, "images/val", "labels/val", count=1)
    found = _read(tmp_path, DIVIDED["train"])
    assert reasons(found) == ["path_outside"] and len(found.images) == 1
    for image, reason in zip(found.unannotated, ("not_an", "truncated", "missing"), strict=True):
        assert refused(Rejected, "", make_example, image, {"cat": 1, "dog": 2}).reason == f"{reason}_image"


def test_a_location_that_is_wrong_or_leads_nowhere_is_refused(tmp_path):
    _present(tmp_path)
    for location in ("data.yaml", {"data": "data.yaml"}, {"annotations": "x"}, 5):
        refused(ConfigError, r"expected .*data\.yaml.*found", yolo.locate, str(tmp_path), location)
    outside = {"data": "../data.yaml", "split": "train"}
    refused(DataError, "file of the classes, found nothing", _read, tmp_path, outside)
    test = {"data": "data.yaml", "split": "test"}
    refused(DataError, "expected the split 'test', found train, val", _read, tmp_path, test)
    where = {"names": "data.yaml", "images": "../.."}
    refused(DataError, "image folder, found nothing", _read, tmp_path, where)
    refused(DataError, r"expected a data\.yaml", _read, str(tmp_path / "images"), None)


@settings(deadline=None)
@given(st.lists(st.floats() | st.integers() | st.text(max_size=5), max_size=9), st.integers(0, 2))
def test_any_line_is_an_object_or_put_aside(values, count):
    found = YoloSet(file="", names={0: "cat"}, keypoints=(count, 2 if count else 0))
    words = " ".join(map(str, values)).split()
    try:
        item = yolo._object(["0", *words], 1, found)
    except Rejected as e:
        assert e.detail.startswith("line 1: ")
    else:
        assert item.name == "cat" and len(words) >= 4


FOLDERS = {"": ["data.yaml", "train.txt"], "images": [], "images/train": ["a.jpg"]}
FOLDERS |= {"sub": ["data.yaml"], "sub/images": ["b.jpg"]}
LISTING = FolderListing(root="/data", folders=FOLDERS, complete=True)


def _place(text, file="data.yaml", base=""):
    return yolo_layout.place_of(LISTING, YoloSet(file=file, names={}, base=base), text)


@cases(
    ("", "images/train", "images/train"), ("", "./images/train/", "images/train"),
    ("", "../images/train", "images/train"), ("images", "train", "images/train"),
    ("../elsewhere", "images/train", "images/train"),
    ("/content/mine", "/content/mine/images/train", "images/train"),
    ("", "D:\\mine\\images\\train", "images/train"), ("", "train.txt", "train.txt"), (".", ".", ""),
)  # fmt: skip
def test_a_path_is_taken_where_it_leads_somewhere_below_the_root(*, base, text, place):
    assert _place(text, base=base) == place


LABELS = {
    "images/a.jpg": "labels/a.txt", "images/x/images/a.jpg": "images/x/labels/a.txt",
    "VOC/JPEGImages/a.b.png": "VOC/labels/a.b.txt", "photos/a.jpg": "photos/a.txt",
    "images/own.jpg": "images/own.txt",
}  # fmt: skip


def test_labels_lie_beside_the_images_or_with_them():
    for image, label in LABELS.items():
        folder, _, name = label.rpartition("/")
        listing = FolderListing(root="", folders={folder: [name]}, complete=True)
        assert yolo_layout.labels_of(listing, [image]) == {image: label}


def test_labels_without_names_and_sparse_lists_are_refused_and_other_texts_are_no_labels(tmp_path):
    write_files(tmp_path, {"a.jpg": "", "a.txt": "0 0.5 0.5 1 1e-05\n"})
    way_out = r"write them to classes\.txt, one a line"
    refused(DataError, way_out, lambda: yolo_layout.find(list_folder(str(tmp_path))))
    for text in ("a photo of a cat and more", "1 2 3", ""):
        write_files(tmp_path, {"a.txt": text, "pipeline.yaml": "train: 1"})
        assert yolo_layout.find(list_folder(str(tmp_path))) is None
    for name, size, message in (("a", 5 * 2**30, "at most 134,217,728 bytes"), ("b", 9, "null char")):
        write_files(tmp_path, {"images/a.jpg": "", f"{name}.txt": ""})
        os.truncate(tmp_path / f"{name}.txt", size)
        found = YoloSet(file="data.yaml", names={}, splits={"train": [f"{name}.txt"]})
        listing = list_folder(str(tmp_path))
        refused(DataError, message, yolo_layout.images_of, listing, found, {"split": "train"})


def test_paths_lead_inside_and_those_of_very_many_parts_or_named_often_are_tried_once(monkeypatch):
    assert _place("images", "sub/data.yaml") == "sub/images", "first relative to its file"
    for text in ("../../etc", "/etc", "none", "https://example.com/coco.zip"):
        refused(DataError, "below /data, found nothing", _place, text)
    tried, seen = [], []
    with monkeypatch.context() as patch:
        patch.setattr(yolo_layout.posixpath, "normpath", lambda path: tried.append(path) or "none")
        for text in ("a/" * 20_000, "a/" * 90):
            tried.clear()
            error = refused(DataError, "found nothing", _place, text)
            assert len(tried) < 250 and len(str(error)) < 400
    monkeypatch.setattr(yolo_layout, "_images_at", lambda listing, place: seen.append(place) or ["a.jpg"])
    found = YoloSet(file="data.yaml", names={}, splits={"train": ["images", "./images", "images/"] * 9})
    assert yolo_layout.images_of(LISTING, found, {"split": "train"}) == ["a.jpg"] and seen == ["images"]


def _read_names(root, name, text):
    (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_set(list_folder(str(root)), name)


@cases(
    ("data.yaml", "names: [cat, dog]\nnc: 2", ["cat", "dog"]),
    ("data.yml", "names:\n  0: cat\n  2: dog", {0: "cat", 2: "dog"}),
    ("data.yaml", "names: {'0': cat, '1': 7}", ["cat", "7"]),
    ("data.yaml", "nc: 2\ntrain: x", ["class_0", "class_1"]),
    ("classes.txt", "\ufeffcat\r\nrote Katze \r\n\r\n", ["cat", "rote Katze"]),
)  # fmt: skip
def test_classes_may_be_written_in_many_ways(tmp_path, *, name, text, names):
    expected = names if isinstance(names, dict) else dict(enumerate(names))
    assert _read_names(tmp_path, name, text).names == expected


@cases(
    ("names: !!python/object/apply:os.system ['touch /tmp/hacked']", "plain value.*python/object"),
    ("names: !!python/name:os.system", "plain value, found the tag"),
    ("a: &a [x, x]\nb: &b [*a, *a]\nnames: [*b, *b]", "a class name as printable text"),
    ("names: [cat", "not valid YAML"), ("- cat", "with names and train"),
    ("names: cat", "a list or a mapping, found 'cat'"), ("names: []", "a list or a mapping"),
    ("names: [cat, [dog]]", "a class name as printable text"), ("names: [yes, no]", "found True"),
    ("names: {a: cat}", "class index"), ("names: {-1: cat}", "class index"),
    ("names: [cat, cat]", "unique class names, found cat"),
    ("names: [cat]\nnc: 80", "found nc 80 and 1 names"),
    ("names: [cat]\ntrain: {a: b}", "train as a path or a list of paths"),
    ("names: [cat]\nkpt_shape: [17]", "kpt_shape"), ("names: [cat]\nkpt_shape: [17, 4]", "kpt_shape"),
    ("names: [cat]\nkpt_shape: [1001, 3]", "number of keypoints, up to 1000"),
    (f"names: [cat]\ntrain: [{'a,' * 1001}]", "a list of paths, up to 1,000"),
    ("nc: 100001\ntrain: x", "names as a list or a mapping"), ("names: {100000: cat}", "class index"),
    ("names: [!!bool cat]", "of the kind bool"), ("names: [cat]\nnames: [dog]", "given twice"),
    ("names: [cat]\nkpt_names: [nose]", "kpt_names"),
    ("names: [cat]\nkpt_names: {0: [nose, nose]}", "unique names"), (b"names: [\xff]", "UTF-8"),
    ("", "class names in a file"), ("[" * 10_000, "nested at most 50 deep"),
    ("names: " + "[" * 60 + "]" * 60, "nested at most 50 deep"),
    ("x:\n" + "".join("  " * depth + "- \n" for depth in range(1, 900)), "nested at most 50 deep"),
    ("names: [" + "c," * 100_000 + "]", "unique class names, found c"),
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_one_error_that_names_it(tmp_path, *, text, message):
    error = refused(DataError, message, _read_names, tmp_path, "data.yaml", text)
    assert error.where.split(":")[0] == str(tmp_path / "data.yaml")


def test_files_name_others_or_themselves_and_many_classes_are_soon_read(tmp_path):
    (tmp_path / "obj.names").write_text("cat\n")
    text = "classes = 1\ntrain  = data/train.txt\nnames=data/obj.names\nbackup = x"
    found = _read_names(tmp_path, "obj.data", text)
    assert (found.names, found.splits) == ({0: "cat"}, {"train": ["data/train.txt"]})
    lost = "class names 'data/no.names', found none"
    refused(DataError, lost, _read_names, tmp_path, "obj.data", "train = x\nnames = data/no.names")
    (tmp_path / "other.data").write_text("names = obj.data\n")
    assert _read_names(tmp_path, "obj.data", "names = obj.data\n").names == {0: "names = obj.data"}
    assert _read_names(tmp_path, "obj.data", "names = other.data\n").names == {0: "names = obj.data"}
    many = "".join(f"{i}\n" for i in range(150_000))
    refused(DataError, "found 100000", _read_names, tmp_path, "classes.txt", many)
    (tmp_path / "obj.names").touch()
    os.truncate(tmp_path / "obj.names", 5 * 2**30)  # sparse
    message = "a file of up to 4,194,304 bytes"
    refused(DataError, message, _read_names, tmp_path, "obj.data", "names = obj.names\n")
    names = [f"class {number}" for number in range(100_000)]
    began = time.process_time()
    assert list(_read_names(tmp_path, "data.yaml", f"names: {json.dumps(names)}").names.values()) == names
    assert time.process_time() - began < 10
