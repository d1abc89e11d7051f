import json

from detection_core.datasets.annotated_images import Rejected
from detection_core.datasets.formats import open_images_files
from detection_core.datasets.formats.open_images_files import find_boxes, find_companions, read_hierarchy
from detection_core.errors import DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import refused
from tests.support.dataset_files import write_files

BOXES = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax"
LABELS = "ImageID,Source,LabelName,Confidence"
MASKS = "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax"


def test_files_are_told_apart_by_their_columns_and_splits_by_their_names(tmp_path):
    tables = {"train_boxes": f"{BOXES}\na,x,/m/1,1,0,1,0,1", "test_boxes": BOXES}
    tables |= {"train_labels": LABELS, "validation_labels": LABELS, "train_masks": MASKS, "other": "a,b"}
    tables |= dict.fromkeys(("class_descriptions", "class_descriptions_boxable"), "/m/1,One")
    write_files(tmp_path, {f"{name.replace('_', '-')}.csv": f"{text}\n" for name, text in tables.items()})
    listing = list_folder(str(tmp_path))
    found = find_boxes(listing)
    assert {path: list(file.names) for path, file in found.items()} == {"train-boxes.csv": ["a.jpg"]}
    more = find_companions(listing, "train-boxes.csv")
    assert more.descriptions == "class-descriptions-boxable.csv"
    assert (more.labels, more.masks) == (["train-labels.csv"], ["train-masks.csv"])


def test_rows_have_the_line_in_which_they_end_and_classes_the_ancestors_of_all_places(tmp_path):
    (tmp_path / "a.csv").write_text('ImageID,LabelName\na,"b\nc"\n\nd\ne,f\n')
    path = str(tmp_path / "a.csv")
    (first, second), (third, fault), (fifth, last) = open_images_files.read_rows(path, ["ImageID"])
    assert (first, third, fifth) == (3, 5, 6) and second == {"ImageID": "a", "LabelName": "b\nc"}
    assert isinstance(fault, Rejected) and "line 5: expected 2 fields, found 1" in fault.detail
    assert last == {"ImageID": "e", "LabelName": "f"}
    for text in ("/m/1", "/m/1,One,Two", "/m/1,", "/m/1,a\x07"):
        (tmp_path / "a.csv").write_text(f"/m/0,Zero\n{text}\n")
        refused(DataError, "a label and a name in line 2", open_images_files.read_descriptions, path)
    leaf = {"LabelName": "cat"}
    tree = {"LabelName": "all", "Subcategory": [
        {"LabelName": "animal", "Subcategory": [{"LabelName": "pet", "Subcategory": [leaf]}]},
        {"LabelName": "thing", "Part": [{"LabelName": "no part"}], "Subcategory": [leaf]},
    ]}  # fmt: skip
    (tmp_path / "tree.json").write_text(json.dumps(tree))
    found = read_hierarchy(str(tmp_path / "tree.json"))
    assert found.implied("cat") == ["pet", "animal", "thing"]
    assert found.implied("animal", 0.0) == ["pet", "cat"] and found.implied("animal") == []
    assert found.implied("all", 0.0) == found.implied("no part") == ()
    for leaves, depths in ((9_000, 30), (0, 100)):  # too broad, and too deep
        tree = {"LabelName": "x", "Subcategory": [{"LabelName": str(i)} for i in range(leaves)]}
        for depth in range(depths):
            tree = {"LabelName": f"d{depth}", "Subcategory": [tree]}
        (tmp_path / "tree.json").write_text(json.dumps(tree))
        refused(DataError, "expected a hierarchy", read_hierarchy, str(tmp_path / "tree.json"))
