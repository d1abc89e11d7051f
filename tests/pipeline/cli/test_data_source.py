import argparse
import json
import os

import pytest

from detection_core.datasets.readers import READERS
from detection_core.errors import DetectionError
from pipeline.cli.data_source import examples_of, source_arguments
from tests.support.dataset_files import Coco, write_voc


def source(path, output, **flags):
    arguments = argparse.Namespace(**{"format": "", "splits": "", **flags})
    return examples_of(str(path), arguments, str(output))


def test_examples_of_a_data_set_are_there_as_long_as_the_block(tmp_path):
    data = write_voc(tmp_path / "data", names=tuple("abcdefgh"))
    with source(data, tmp_path) as folder:
        assert os.path.exists(os.path.join(folder, "dataset_card.json"))
        with source(folder, tmp_path / "elsewhere") as same:
            assert same == folder
    assert not os.path.exists(folder) and os.path.exists(data)
    with pytest.raises(RuntimeError), source(data, tmp_path) as folder:
        raise RuntimeError
    assert not os.path.exists(folder)
    with source("", tmp_path) as folder:
        assert folder == ""


def test_splits_are_taken_as_they_are_named_and_what_cannot_be_read_is_one_message(tmp_path):
    Coco(tmp_path / "data", images=8).write("mine.json")
    splits = json.dumps({"all": {"annotations": "mine.json", "images": "images"}})
    with source(tmp_path / "data", tmp_path, format="coco", splits=splits) as folder:
        assert [n for n in os.listdir(folder) if n.startswith("Split-")] == ["Split-all"]
    (tmp_path / "empty").mkdir()
    for flags, said in (
        ({"splits": "{"}, "--splits: expected JSON"),
        ({"splits": "[1]"}, "--splits: expected an object"),
        ({}, "expected an annotated data set"),
        ({"format": "voc"}, "Pascal VOC"),
    ):
        with pytest.raises(DetectionError, match=said), source(tmp_path / "empty", tmp_path, **flags):
            pass
        assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "empty"]
    assert next(iter(source_arguments())).options["choices"] == sorted(READERS)
