import base64
import json

from detection_core.datasets.formats import labelme
from detection_core.datasets.image_sizes import shown_size
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from tests.support.cases import cases, refused
from tests.support.dataset_files import ids, picture, reading, reasons, subfolder, write_files

_read = reading(labelme)
BOX = {"label": "cat", "points": [[1, 2], [9, 8]], "shape_type": "rectangle", "group_id": 1}


def _write(root, name="a", shapes=(BOX,), **changed):
    content = {"shapes": shapes, "imagePath": f"{name}.jpg", "imageWidth": 40, "imageHeight": 30}
    text = json.dumps({**content, "imageData": "x" * 100, **changed})
    write_files(root, {f"{name}.json": text, f"{name}.jpg": picture()})


def test_points_of_a_group_are_keypoints_and_labels_of_its_own_no_classes(tmp_path):
    nose = {"label": "nose", "points": [[3, 4]], "shape_type": "point", "group_id": 1}
    ear = {"label": "ear", "points": [[5, 6]], "shape_type": "point", "group_id": 1}
    _write(tmp_path, "a", [nose, BOX])
    _write(tmp_path, "b", [BOX, nose, ear, {**BOX, "label": "dog", "group_id": None}])
    found = _read(tmp_path)
    assert found.keypoint_names == {"cat": ["ear", "nose"]}
    first, second = found.images
    assert first.objects[0].keypoints == [(0, 0, 0), (3, 4, 2)]
    assert [item.keypoints for item in second.objects] == [[(5, 6, 2), (3, 4, 2)], None]
    below = subfolder(tmp_path, 1)
    shapes = [BOX, {**BOX, "label": "__ignore__", "shape_type": "line"}, {**BOX, "label": "_background_"}]
    _write(below, "a", shapes=shapes)
    found = _read(below)
    assert not found.rejected and found.categories == {"cat": 0}
    assert [item.name for item in found.images[0].objects] == ["cat"]


def test_folders_are_searched_and_what_is_no_file_of_labelme_is_said(tmp_path):
    root = str(tmp_path)
    refused(ConfigError, "a folder of LabelMe files", labelme.locate, root, {"a": "b"})
    refused(DataError, "found nothing", labelme.locate, root, "none")
    refused(DataError, "expected LabelMe files, found none", _read, root)
    for split in ("train", "val"):
        _write(tmp_path / split)
    layout = find_layout(root)
    assert (layout.format, layout.splits) == ("labelme", {"train": "train", "eval": "val"})
    (image,) = _read(root, "val").images
    assert (image.source_id, image.path) == ("val/a", f"{root}/val/a.jpg")
    assert len(_read(root).images) == 2


@cases(
    ({"shapes": 5}, "malformed_record"), ({"shapes": [5]}, "malformed_record"),
    ({"imagePath": None}, "malformed_record"), ({"imagePath": "../../\0"}, "malformed_record"),
    ({"imageWidth": "40"}, "malformed_annotation"), ({"shapes": [{**BOX, "label": 3}]}, "malformed_record"),
    ({"shapes": [{**BOX, "points": [[1]]}]}, "malformed_annotation"),
    ({"shapes": [{**BOX, "shape_type": "line"}]}, "malformed_annotation"), ("[]", None), ("{", None),
    ("5", None), ('"shapes"', None), (None, "unreadable_annotation"),
)  # fmt: skip
def test_a_bad_file_or_a_folder_in_its_place_costs_only_its_image(tmp_path, *, changed, reason):
    _write(tmp_path, "good")
    if isinstance(changed, dict):
        _write(tmp_path, "bad", **changed)
    elif changed is None:
        (tmp_path / "bad.json").mkdir()
    else:
        write_files(tmp_path, {"bad.json": changed})
    write_files(tmp_path, {"settings.json": '{"mine": 1}'})
    found = _read(tmp_path)
    assert [r.file for r in found.rejected] == ["bad.json"] and ids(found) == ["good"]
    assert reason in (None, *reasons(found))


def test_files_are_read_one_by_one_and_an_image_inside_one_where_none_is_beside(tmp_path, monkeypatch):
    for name in "abc":
        _write(tmp_path, name)
    opened, real = [], labelme.parse_json
    monkeypatch.setattr(labelme, "parse_json", lambda path: (opened.append(path), real(path))[1])
    images = iter(labelme.read(str(tmp_path), None).images)
    assert not opened
    assert [len(opened) for _ in images] == [1, 2, 3]
    tmp_path = subfolder(tmp_path, 1)
    data = picture()
    text = base64.b64encode(data).decode()
    _write(tmp_path, "alone", imagePath="C:\\me\\alone.jpg", imageData=text)
    (tmp_path / "alone.jpg").unlink()
    _write(tmp_path, "beside", imageData=text)
    alone, beside = _read(tmp_path).images
    assert beside.path == str(tmp_path / "beside.jpg")
    assert files.read_regular(alone.path, len(data)) == data
    assert (alone.filename, shown_size(alone.path)) == ("alone.jpg", (40, 30))
    path = tmp_path / "alone.json"
    path.write_text(path.read_text().replace("/9j/", "\\/9j\\/"))
    assert reasons(_read(tmp_path)) == ["unreadable_annotation"]
