import collections
import itertools
import os

import numpy as np

from detection_core.datasets.splits import check_splits, split_at, split_position
from detection_core.datasets.survey import OPENED_IMAGES, survey
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco, exif, picture, subfolder, voc_xml, write_files, write_voc
from tests.support.same_set import WRITERS

RATIOS = {"train": 0.8, "eval": 0.2}


def _survey(data):
    return survey(data.write(), "coco", RATIOS)


def test_what_is_seen_is_what_is_there(tmp_path):
    data = Coco(tmp_path, images=30)
    data.add_box(2, [0, 0, 20, 15], category_id=1)
    data.add_box(99, [0, 0, 20, 15])
    seen = _survey(data)
    assert (seen.images, seen.empty_images, seen.most_objects) == (30, 10, 2)
    assert seen.classes == {"cat": 20, "dog": 1} and seen.objects == 21
    assert seen.rejected == {"unknown_image": 1} and (seen.opened, seen.unreadable) == (30, ())
    assert (seen.sizes == (30, 40)).all() and len(seen.sizes) == 30
    expected = [(0, 0, 15 / 30, 20 / 40), (3 / 30, 2 / 40, 23 / 30, 12 / 40)]
    np.testing.assert_allclose(np.unique(seen.boxes, axis=0), expected, rtol=1e-6)
    assert {tuple(sides) for sides in seen.box_sides} == {(20, 10), (15, 20)}


def test_splits_are_counted_rare_classes_shown_and_many_sizes_and_boxes_sampled(tmp_path, monkeypatch):
    names = [f"image-{i}" for i in range(200)]
    path = write_voc(tmp_path, names=names, **{"image-33": voc_xml("image-33", label="rare")})
    seen = survey(path, "voc", RATIOS, shown=4)
    assert len(seen.examples) == 4
    assert any(item.name == "rare" for image in seen.examples for item in image.objects)
    for ratios in (RATIOS, {"train": 0.8, "eval": 0.1, "test": 0.1}, {"train": 0.5, "eval": 0.5}):
        made = collections.Counter(split_at(split_position(name), check_splits(ratios)) for name in names)
        assert {name: seen.count(name, ratios) for name in ratios} == made
    write_files(tmp_path / "ImageSets" / "Main", {"val.txt": "image-0\nimage-1\n"})
    splits = {"train": "ImageSets/Main/train.txt", "eval": "ImageSets/Main/val.txt"}
    seen = survey(path, "voc", splits)
    assert [seen.count(name, splits) for name in ("train", "eval", "test")] == [200, 2, 0]
    tmp_path = subfolder(tmp_path, 1)
    data = Coco(tmp_path, images=259)
    data.annotations.clear()
    for number in range(1, 260):
        data.add_box(number, [2, 3, 10, 20])
    seen = _survey(data)
    assert (OPENED_IMAGES // 2 < seen.opened <= OPENED_IMAGES) and len(seen.boxes) == 259
    monkeypatch.setattr("detection_core.datasets.survey.SAMPLED_BOXES", 100)
    seen = _survey(data)
    assert len(seen.boxes) == 100 and seen.objects == 259


def test_what_is_no_image_rejected_or_without_a_shape_is_counted_and_told(tmp_path, monkeypatch):
    data = Coco(tmp_path, images=5)
    for name in ("1.jpg", "4.jpg"):
        (tmp_path / "images" / name).unlink()
    (tmp_path / "images" / "2.jpg").write_bytes(b"nothing")
    os.mkfifo(tmp_path / "images" / "4.jpg")
    seen = _survey(data)
    assert seen.opened == 5
    assert sorted(fault.partition(":")[0] for fault in seen.unreadable) == ["1.jpg", "2.jpg", "4.jpg"]
    below = subfolder(tmp_path, 1)
    monkeypatch.setattr("detection_core.datasets.survey.SAMPLED_BOXES", 10)
    data = Coco(below, images=1)
    for box in ([0, 0, 0, 5], [10, 10, -4, 5], [float("nan"), 0, 5, 5], [500, 500, 5, 5]):
        data.add_box(1, box)
    for number in range(30):
        data.add_box(1_000 + number, [0, 0, 5, 5])
    seen = _survey(data)
    assert len(seen.boxes) == 1 and np.isfinite(seen.boxes).all() and seen.rejected == {"unknown_image": 30}


def test_sizes_are_those_of_the_pictures_as_they_are_shown(tmp_path):
    data = Coco(tmp_path / "turned", images=0)
    data.add_image(1, data=picture(exif=exif(6)), width=0, height=0)
    seen = _survey(data)
    assert seen.sizes.tolist() == [[40, 30]]
    # The annotation says no size: boxes are fractions of the picture's.
    np.testing.assert_allclose(seen.boxes, [[3 / 40, 2 / 30, 23 / 40, 12 / 30]], rtol=1e-6)
    data = Coco(tmp_path / "huge", images=20)
    for image in data.images:
        image["width"] = 10**400
    seen = _survey(data)
    assert (seen.sizes == (30, 40)).all() and 0 < seen.boxes.max() <= 1
    for name in ("yolo", "coco"):  # boxes in fractions, and in pixels
        WRITERS[name](tmp_path / name)
    by_format = [survey(str(tmp_path / name), name, RATIOS) for name in ("yolo", "coco")]
    for field in ("boxes", "box_sides", "sizes"):
        one, other = (np.sort(getattr(seen, field), axis=0) for seen in by_format)
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert by_format[0].empty_images == by_format[1].empty_images == 1


def test_examples_come_from_all_splits_and_folders(tmp_path):
    for split, camera, number in itertools.product(("train", "val", "test"), ("one", "two"), range(40)):
        name = f"{split}-{camera}-{number}"
        files = {f"{name}.jpg": picture(), f"{name}.xml": voc_xml(name)}
        write_files(tmp_path / split / camera, files)
    places = {"train": "train", "eval": "val", "test": "test"}
    splits = {name: {"annotations": folder, "images": folder} for name, folder in places.items()}
    seen = survey(str(tmp_path), "voc", splits)
    folders = {os.path.dirname(os.path.relpath(image.path, tmp_path)) for image in seen.examples}
    assert len(seen.examples) == 12 and len(folders) == 6
    assert [seen.count_annotated(name, splits) for name in ("train", "eval", "none")] == [80, 80, 0]


@cases(
    ((), "expected annotated objects, found none on 1 images"),
    (("/elsewhere/a.jpg", b""), r"of 1 that cannot be used one is /elsewhere/a\.jpg: .*leaves the"),
)
def test_a_set_without_objects_is_refused_with_what_is_wrong_with_the_first(tmp_path, *, image, message):
    data = Coco(tmp_path, images=0)
    data.add_image(1, *image, boxes=[[2, 3, 10, 20]] if image else [])
    refused(DataError, message, _survey, data)
