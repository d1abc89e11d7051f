import json

from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.encoding import make_example
from detection_core.datasets.formats import yolo
from detection_core.datasets.formats.yolo_names import YoloSet
from detection_core.datasets.layout_search import find_layout
from detection_core.datasets.layouts import RATIOS
from detection_core.datasets.readers import READERS
from detection_core.errors import ConfigError, DataError
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
        assert len(found.images) == count and not found.rejected
        assert found.categories == {"cat": 1, "dog": 2}
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
        text = f"{YAML}kpt_shape: [2, {dims}]\nkpt_names:\n  0: [nose, tail]\n"
        write_files(tmp_path, {"data.yaml": text})
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
    for location, message in (
        ({"data": "../data.yaml", "split": "train"}, "file of the classes, found nothing"),
        ({"data": "data.yaml", "split": "test"}, "expected the split 'test', found train, val"),
        ({"names": "data.yaml", "images": "../.."}, "image folder, found nothing"),
    ):
        refused(DataError, message, _read, tmp_path, location)
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
