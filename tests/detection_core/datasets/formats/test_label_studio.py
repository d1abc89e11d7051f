import json
import os

from detection_core.datasets.formats import label_studio
from detection_core.datasets.formats.label_studio import file_name
from detection_core.datasets.layout_search import find_layout
from detection_core.errors import DataError
from tests.support.cases import cases, refused
from tests.support.dataset_files import picture, reading, reasons, write_files

_read = reading(label_studio)
SIZE = {"original_width": 40, "original_height": 30}
PLACE = {"x": 25, "y": 50, "width": 25, "height": 50, "rotation": 0}
BOX = {**SIZE, "type": "rectanglelabels", "id": "r", "value": {**PLACE, "rectanglelabels": ["cat"]}}
HERE = {"annotations": "export.json", "images": "."}


def _done(*results, **more):
    return {"result": list(results), **more}


def _task(number=1, image="/data/upload/1/0123abcd-a.jpg", annotations=({"result": [BOX]},)):
    return {"id": number, "data": {"image": image}, "annotations": list(annotations)}


def _write(root, *tasks):
    write_files(root, {"export.json": json.dumps(tasks), "a.jpg": picture(), "b.jpg": picture()})


@cases(
    ("/data/upload/1/0123abcd-a%20b.jpg", "0123abcd-a b.jpg"),
    ("/data/local-files/?d=in/side/a.jpg", "a.jpg"), ("s3://bucket/in/a.jpg", "a.jpg"),
    ("https://host/a.jpg?token=1", "a.jpg"), ("a.jpg", "a.jpg"), ("http://[::1/a.jpg", "a.jpg"),
    ("//[/a.jpg", "a.jpg"), ("http://[v1.x]/a.jpg", "a.jpg"),
)  # fmt: skip
def test_a_file_name_ends_an_address_and_one_that_is_none_is_a_path(tmp_path, *, address, name):
    assert file_name(address) == name
    _write(tmp_path, _task(image=address))
    found = _read(tmp_path, HERE)
    assert not found.rejected and (name != "a.jpg" or [i.filename for i in found.images] == [name])


def test_the_shorter_export_and_the_annotation_that_counts_are_read(tmp_path):
    region = {**PLACE, **SIZE, "rectanglelabels": ["cat"]}
    _write(tmp_path, {"image": "/data/upload/1/0123abcd-b.jpg", "id": 1, "label": [region]})
    layout = find_layout(str(tmp_path))
    (image,) = _read(layout.path).images
    assert layout.format == "label_studio" and image.filename == "b.jpg"
    assert image.objects[0].box == (10, 15, 20, 30)
    dog = {**BOX, "value": {**PLACE, "rectanglelabels": ["dog"]}}
    cancelled = _done(BOX, was_cancelled=True)
    first = _task(1, "a.jpg", [cancelled, _done(dog), _done(BOX)])
    second = _task(2, "b.jpg", [_done(BOX), _done(dog, ground_truth=True)])
    _write(tmp_path, first, second, _task(3, "a.jpg", []), _task(4, "a.jpg", [cancelled]))
    found = _read(tmp_path, HERE)
    assert [item.name for image in found.images for item in image.objects] == ["dog", "dog"]
    assert not found.rejected and found.categories == {"dog": 0}


def test_keypoints_have_one_order_whichever_comes_first(tmp_path):
    def point(name, x):
        value = {"x": x, "y": 50, "width": 1, "keypointlabels": [name]}
        return {**SIZE, "type": "keypointlabels", "id": name, "parentID": "r", "value": value}

    nose, ear = point("nose", 50), point("ear", 25)
    _write(tmp_path, _task(1, "a.jpg", [_done(BOX, nose)]), _task(2, "b.jpg", [_done(ear, BOX)]))
    found = _read(tmp_path, HERE)
    assert found.keypoint_names == {"cat": ["ear", "nose"]}
    first, second = [image.objects[0].keypoints for image in found.images]
    assert (first, second) == ([(0, 0, 0), (20, 15, 2)], [(10, 15, 2), (0, 0, 0)])


@cases(
    (5, "malformed_record"), ({"id": 9, "data": 5, "annotations": [_done(BOX)]}, "malformed_record"),
    (_task(9, None), "malformed_record"), (_task(9, "x\ny.jpg"), "malformed_record"),
    (_task(9, "/data/local-files/?d=.."), "path_outside"), (_task(9, annotations=[5]), "malformed_record"),
    (_task(9, annotations=[{"result": 5}]), "malformed_record"),
    (_task(9, annotations=[_done({**BOX, "type": "videorectangle"})]), "malformed_annotation"),
)  # fmt: skip
def test_a_bad_task_costs_only_itself(tmp_path, *, task, reason):
    _write(tmp_path, _task(1, "a.jpg"), task)
    found = _read(tmp_path, HERE)
    assert reasons(found) == [reason] and len(found.images) == 1


def test_files_that_are_no_list_of_tasks_and_too_many_keypoints_are_refused(tmp_path, monkeypatch):
    message = r"export\.json: expected a JSON export of Label Studio"
    for text in ("{}", "[", "5"):
        write_files(tmp_path, {"export.json": text})
        refused(DataError, message, _read, tmp_path, HERE)
    _write(tmp_path, _task())
    os.truncate(tmp_path / "export.json", 5 * 2**30)  # and not searched for keypoints
    refused(DataError, f"{message}: expected JSON", _read, tmp_path, HERE)
    monkeypatch.setattr(label_studio, "MAX_VALUES", 3)
    point = {**SIZE, "type": "keypointlabels", "id": "p", "parentID": "r"}
    points = [{**point, "value": {"x": 1, "y": 1, "keypointlabels": [name]}} for name in "ab"]
    more = [{**BOX, "id": str(number)} for number in range(2)]
    _write(tmp_path, _task(annotations=[_done(BOX, *points)]), _task(2, "b.jpg", [_done(*more)]))
    found = _read(tmp_path, HERE)
    assert [image.filename for image in found.images] == ["a.jpg"]
    (rejection,) = found.rejected
    assert rejection.detail == "expected at most 3 keypoints of an image, found more"
