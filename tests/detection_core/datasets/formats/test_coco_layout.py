import json

from detection_core.datasets.formats import coco, coco_layout
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases
from tests.support.dataset_files import subfolder, write_files

IMAGES = [{"id": n, "file_name": f"{n}.jpg"} for n in range(3)]
BOXES = [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}]
SET = {"images": IMAGES, "annotations": BOXES, "categories": [{"id": 1, "name": "cat"}]}


@cases(
    (SET, True), (dict(reversed(SET.items())), True), ({**SET, "annotations": []}, True), ({}, False),
    ({"images": IMAGES, "annotations": [{"id": 1, "image_id": 1, "caption": "a cat"}]}, False),
    ({**SET, "annotations": [{"segments_info": []}]}, False), ({"shapes": [], "imagePath": "a.jpg"}, False),
    ([{"images": IMAGES, "category_id": 1}], False),
)  # fmt: skip
def test_a_file_is_known_by_its_lists(*, content, expected):
    assert coco_layout.is_coco(json.dumps(content).encode(), b"") is expected


def test_only_some_files_of_a_folder_and_parts_of_a_long_one_are_read(tmp_path):
    images = [{"id": n, "file_name": f"{n:06}.jpg", "note": "x" * 100} for n in range(20_000)]
    text = json.dumps({**SET, "images": images})
    write_files(tmp_path, {"long.json": text.replace('"000000.jpg"', '"no escape: \\q"')})
    (file,) = coco_layout.find_files(list_folder(str(tmp_path))).values()
    assert file.names[0] != "no escape: q" and file.names[-1] == "019999.jpg"
    assert all(name.removesuffix(".jpg").isdigit() for name in file.names)
    below = subfolder(tmp_path, 1)
    write_files(below, {f"{n:03}.json": '{"shapes": []}' for n in range(100)})
    write_files(below, {"050.json": json.dumps({"images": [], "categories": []})})
    assert coco_layout.find_files(list_folder(str(below))) == {}


@cases("images", "data/pictures", ".", None)
def test_images_are_found_in_whatever_folder_or_said_to_be_nowhere(tmp_path, *, folder):
    if folder:
        write_files(tmp_path / folder, {image["file_name"]: b"image" for image in IMAGES})
    write_files(tmp_path, {"boxes.json": json.dumps(SET)})
    layout = coco_layout.find(list_folder(str(tmp_path)))
    assert layout.images == (3 if folder else 0)
    assert ("no folder that was found" in layout.evidence) == (folder is None)
    assert coco.locate(str(tmp_path), None)[1] == str(tmp_path / (folder or "."))
