import pytest

from component_specs.example_gen import Spans
from components.example_gen.data_search import find_data
from detection_core.errors import DataError
from tests.support.cases import cases
from tests.support.dataset_files import Coco, write_voc
from tests.support.same_set import WRITERS

RATIO = {"train": 0.5, "eval": 0.5}


@cases(*WRITERS)
def test_the_format_of_any_set_is_found(tmp_path, *, data_format):
    WRITERS[data_format](tmp_path)
    assert find_data(str(tmp_path), "auto", RATIO) == (str(tmp_path), data_format)


def test_a_set_in_a_folder_of_the_folder_is_read_from_there(tmp_path):
    write_voc(tmp_path / "VOCdevkit" / "VOC2007")
    assert find_data(str(tmp_path), "auto", RATIO) == (str(tmp_path / "VOCdevkit" / "VOC2007"), "voc")
    assert find_data(str(tmp_path / "none"), "voc", RATIO) == (str(tmp_path / "none"), "voc")


def test_of_spans_the_newest_is_looked_into_and_all_are_read_alike(tmp_path):
    for span in (1, 2):
        write_voc(tmp_path / f"span-{span}" / "VOC2007")
    Coco(tmp_path / "span-3").write()
    path = str(tmp_path / "span-{SPAN}")
    spans = Spans(train=("1", "2"), evaluate=("2",))
    assert find_data(path, "auto", RATIO, spans) == (f"{path}/VOC2007", "voc")
    where = {"train": "VOC2007/ImageSets/Main/train.txt"}
    with pytest.raises(DataError, match=r"Looked for Pascal VOC|Looked for COCO"):
        find_data(path, "auto", {"train": "none.txt"}, spans)
    assert find_data(f"{path}/VOC2007", "auto", {"train": where["train"][8:]}, spans)[1] == "voc"


def test_a_folder_without_data_is_refused_with_what_was_looked_for(tmp_path):
    (tmp_path / "notes.md").write_text("nothing")
    with pytest.raises(DataError, match=r"(?s)Looked for COCO.*YOLO.*Found 1 \.md"):
        find_data(str(tmp_path), "auto", RATIO)
