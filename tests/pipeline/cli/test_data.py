"""Verbs on data, and the folders that they write."""

import argparse
import json
import os
from pathlib import Path

import pytest

from component_specs import ExampleGenJob
from components.example_gen.run import run as make
from detection_core.datasets.readers import READERS
from detection_core.errors import ConfigError, DetectionError
from detection_core.storage import files
from pipeline.cli.base import output_folder
from pipeline.cli.data import examples_of, source_arguments
from tests.pipeline.conftest import DIGITS
from tests.support.dataset_files import Coco, voc_xml, write_voc
from tests.support.object_store import s3_server


def test_a_data_set_is_converted_and_said_in_words_and_as_json(tmp_path, cli):
    data = write_voc(tmp_path / "in", names=["a", "b"], b=voc_xml("b", size=("wide", 30)))
    words = ["data", "convert", data]
    out = cli(*words, "-o", tmp_path / "out")
    assert "found: voc: 2 XML files in Annotations/" in out and "1 put aside, listed in" in out
    assert f"1 images, 1 objects in {tmp_path}/out: annotations.json" in out
    data = cli.json(*words, "-o", tmp_path / "again")
    assert data["annotations"] == {"": f"{tmp_path}/again/annotations.json"} and data["quarantined"] == 1
    folder = Coco(tmp_path / "coco").write()
    assert "ConfigError" in cli.refused("data", "convert", folder, "-o", folder)
    told = cli.refused("data", "convert", tmp_path / "none", "-o", tmp_path / "out")
    assert "expected the folder of a data set" in told


def test_a_preview_of_a_folder_prints_its_seed_and_takes_one_source(tmp_path, cli):
    data = write_voc(tmp_path / "data", names=tuple("abcdefgh"))
    words = ["data", "preview", DIGITS / "pipeline.config", "-o", tmp_path / "out", "--data", data]
    told = cli.json(*words, "--seed", 4, "-n", 3)
    assert told["seed"] == 4 and len(told["source_ids"]) == 3
    assert (tmp_path / "out" / "contact_sheet.png").read_bytes().startswith(b"\x89PNG")
    assert "seed 4" in (tmp_path / "out" / "index.html").read_text()
    assert not (tmp_path / "out" / ".examples").exists()
    assert "found both" in cli.json(*words, "--examples", data, code=2)["message"]


def test_a_folder_becomes_a_page_without_a_word_about_its_format_and_so_do_examples(tmp_path, cli):
    voc = write_voc(tmp_path / "data", names=tuple("abcdefgh"))
    words, out = ["data", "report", voc, "-o", tmp_path / "out"], tmp_path / "out"
    told = cli.json(*words)
    assert told["page"] == str(out / "index.html")
    assert told["card"]["format"] == "voc" and told["card"]["total"]["images"] == 8
    page = (out / "index.html").read_text()
    assert "<h3>Boxes</h3>" in page and "<h4>cat</h4>" in page and "data:image/jpeg" in page
    assert not (out / ".examples").exists() and cli.json(*words) and (out / "index.html").read_text() == page
    examples, splits = str(tmp_path / "examples"), {"train": 0.5, "eval": 0.5}
    make(ExampleGenJob(examples=examples, data_path=voc, data_format="voc", splits=splits))
    card = cli.json("data", "report", examples, "-o", tmp_path / "out")["card"]
    assert set(card["splits"]) == {"train", "eval"}


def test_format_and_splits_may_be_named(tmp_path, cli):
    coco = Coco(tmp_path / "data", images=8)
    coco.annotations[0]["bbox"] = [30, 3, 500, 20]
    coco.write("mine.json")
    splits = json.dumps({"train": {"annotations": "mine.json", "images": "images"}})
    words = ["data", "report", tmp_path / "data", "-o", tmp_path / "out", "--format", "coco"]
    card = cli.json(*words, "--splits", splits)["card"]
    assert card["quarantine"]["reasons"] == {"box_outside": 1} and list(card["splits"]) == ["train"]
    assert "annotation 0" in (tmp_path / "out" / "index.html").read_text()


def test_a_report_that_failed_leaves_its_folder_as_it_was(tmp_path, cli):
    (tmp_path / "empty").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("x")
    for folder in ("new", "there"):
        assert "Looked for" in cli.refused("data", "report", tmp_path / "empty", "-o", tmp_path / folder)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["empty", "there", "there/mine.txt"]


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


def test_a_local_folder_is_written_as_it_is_and_one_that_cannot_be_made_is_one_message(tmp_path):
    with output_folder(str(tmp_path / "new")) as folder:
        assert folder == str(tmp_path / "new") and os.path.isdir(folder)
    (tmp_path / "file").touch()
    refused = pytest.raises(ConfigError, match="cannot make the output folder")
    with refused, output_folder(str(tmp_path / "file" / "x")):
        pass


def test_an_object_store_gets_everything_at_the_end_and_nothing_of_a_failure():
    with s3_server() as bucket:
        with output_folder(f"{bucket}/made") as folder:
            files.write_text(f"{folder}/deep/a", "one")
            assert not files.exists(f"{bucket}/made")
        assert files.read_text(f"{bucket}/made/deep/a") == "one" and not os.path.exists(folder)
        with pytest.raises(RuntimeError), output_folder(f"{bucket}/failed") as folder:
            files.write_text(f"{folder}/a", "one")
            raise RuntimeError
        assert not files.exists(f"{bucket}/failed") and not os.path.exists(folder)


def test_a_folder_is_as_it_was_where_nothing_unfinished_is_to_stay(tmp_path):
    kept = tmp_path / "there"
    kept.mkdir()
    (kept / "mine").write_text("x")
    for folder in (tmp_path / "new", kept):
        with pytest.raises(ZeroDivisionError), output_folder(str(folder), keep_unfinished=False) as output:
            (Path(output) / "model").mkdir()
            (Path(output) / "native.log").write_text("x")
            _ = 1 / 0
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "mine"]
    with output_folder(str(tmp_path / "new"), keep_unfinished=False) as output:
        (Path(output) / "model").mkdir()
    assert (tmp_path / "new" / "model").is_dir()
