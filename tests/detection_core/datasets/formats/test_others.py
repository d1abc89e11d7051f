import json

from detection_core.datasets.formats.others import name_other
from detection_core.datasets.layout_search import find_layouts
from detection_core.errors import DataError
from detection_core.storage.folder_listing import list_folder
from tests.support.cases import cases, refused
from tests.support.dataset_files import picture, write_files
from tests.support.same_set import WRITERS

OBJECT = {"classTitle": "cat", "geometryType": "rectangle", "points": {"exterior": [[1, 2], [3, 4]]}}
DARWIN = {"version": "2.0", "schema_ref": "https://darwin-public.s3.example/2.0", "annotations": []}
ROW = {"file_name": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4]], "categories": [0]}}
FILES = {
    "KITTI": ("label_2/a.txt", "Car 0.00 0 -1.57 599.4 156.4 629.8 189.2 2.8 2.6 12.3 0.4 1.8 69.4 -1.56\n"),
    "Supervisely": ("ds0/ann/a.jpg.json", json.dumps({"objects": [OBJECT]})),
    "Darwin": ("annotations/a.json", json.dumps(DARWIN)),
    "VIA 3": ("via.json", json.dumps({"project": {"pid": "__VIA_PROJECT_ID__"}})),
    "Hugging Face": ("train/metadata.jsonl", json.dumps(ROW)),
}


@cases(*FILES)
def test_a_format_that_is_not_read_is_refused_by_its_name(tmp_path, *, name):
    path, text = FILES[name]
    write_files(tmp_path, {path: text, "a.jpg": picture()})
    message = rf"Found .*{name}.* is not read\. Convert it to COCO JSON or YOLO: "
    said = str(refused(DataError, message, find_layouts, str(tmp_path)))
    assert "Looked for" not in said and len(said) - len(str(tmp_path)) < 250


def test_parquet_and_a_table_of_metadata_are_hugging_faces_and_formats_that_are_read_no_others(tmp_path):
    tables = {"b/metadata.csv": "file_name,objects\n", "c/metadata.jsonl": "no json\n"}
    write_files(tmp_path, {"a/data.parquet": "PAR1", **tables})
    names = [name_other(list_folder(str(tmp_path / folder))) for folder in "abc"]
    assert ["Hugging Face" in name for name in names] == [True, True, False]
    for data_format, write in WRITERS.items():
        write(tmp_path / data_format)
        assert name_other(list_folder(str(tmp_path / data_format))) == "", data_format
