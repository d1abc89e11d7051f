import json

from detection_core.datasets.formats import createml
from detection_core.datasets.layout_search import find_layout
from tests.support.cases import cases
from tests.support.dataset_files import ids, picture, reading, reasons, subfolder, write_files

_read = reading(createml)
BOX = {"label": "cat", "coordinates": {"x": 20, "y": 10, "width": 10, "height": 4}}


def _write(root, *entries):
    names = [entry.get("image") for entry in entries if isinstance(entry, dict)]
    write_files(root, {name: picture() for name in names if name})
    write_files(root, {"_annotations.createml.json": json.dumps(entries)})
    return root


def test_boxes_are_about_their_centers_and_folders_of_splits_those_of_roboflow(tmp_path):
    entries = {"image": "a.jpg", "annotations": [BOX]}, {"image": "b.jpg", "annotations": []}
    found = _read(_write(tmp_path, *entries))
    assert [(image.source_id, len(image.objects)) for image in found.images] == [("a.jpg", 1), ("b.jpg", 0)]
    assert found.images[0].objects[0].box == (15, 8, 25, 12) and found.categories == {"cat": 0}
    below = subfolder(tmp_path, 1)
    for split in ("train", "valid"):
        _write(below / split, {"image": f"{split}.jpg", "annotations": [BOX]})
    layout = find_layout(str(below))
    location = {"annotations": "train/_annotations.createml.json", "images": "train"}
    assert layout.format == "createml" and layout.splits["train"] == location
    assert len(createml.locate(str(below), location)) == 2


@cases(
    (5, "malformed_record"), ({"annotations": [BOX]}, "malformed_record"),
    ({"image": "../none.jpg", "annotations": [BOX]}, "path_outside"),
    ({"image": "b.jpg", "annotations": 5}, "malformed_record"),
    ({"image": "b.jpg", "annotations": [{**BOX, "label": None}]}, "malformed_record"),
    ({"image": "b.jpg", "annotations": [{**BOX, "coordinates": 5}]}, "malformed_annotation"),
    ({"image": "b.jpg", "annotations": [{**BOX, "coordinates": {"x": 1}}]}, "malformed_annotation"),
)  # fmt: skip
def test_a_bad_entry_costs_only_its_image(tmp_path, *, entry, reason):
    found = _read(_write(tmp_path / "set", {"image": "a.jpg", "annotations": [BOX]}, entry))
    assert reasons(found) == [reason] and ids(found) == ["a.jpg"]
    assert not any(image.filename == "b.jpg" for image in found.unannotated)
