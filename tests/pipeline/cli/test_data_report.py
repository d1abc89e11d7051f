from __future__ import annotations

import json

import pytest

from pipeline.cli import main
from tests.support.dataset_files import Coco, write_voc


@pytest.fixture
def voc(tmp_path):
    return write_voc(tmp_path / "data", names=tuple("abcdefgh"))


def run(capsys, *arguments):
    code = main(["data", "report", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_folder_becomes_a_page_without_a_word_about_its_format(voc, tmp_path, capsys):
    code, told = run(capsys, voc, "-o", tmp_path / "out")
    assert code == 0 and told["page"] == str(tmp_path / "out" / "index.html")
    assert told["card"]["format"] == "voc" and told["card"]["total"]["images"] == 8
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<h3>Boxes</h3>" in page and "<h4>cat</h4>" in page and "data:image/jpeg" in page
    assert not (tmp_path / "out" / ".examples").exists()
    again, _ = run(capsys, voc, "-o", tmp_path / "out")
    assert again == 0 and (tmp_path / "out" / "index.html").read_text() == page


def test_format_and_splits_may_be_named(tmp_path, capsys):
    coco = Coco(tmp_path / "data", images=8)
    coco.annotations[0]["bbox"] = [30, 3, 500, 20]
    coco.write("mine.json")
    splits = json.dumps({"train": {"annotations": "mine.json", "images": "images"}})
    code, told = run(
        capsys, tmp_path / "data", "-o", tmp_path / "out", "--format", "coco", "--splits", splits
    )
    assert code == 0 and told["card"]["quarantine"]["reasons"] == {"box_outside": 1}
    assert list(told["card"]["splits"]) == ["train"]
    assert "leaves" in told["page"] or "annotation 0" in (tmp_path / "out" / "index.html").read_text()


def test_examples_are_read_as_they_are(voc, tmp_path, capsys):
    from component_specs import ExampleGenJob
    from components.example_gen.run import run as make

    examples = str(tmp_path / "examples")
    make(
        ExampleGenJob(examples=examples, data_path=voc, data_format="voc", splits={"train": 0.5, "eval": 0.5})
    )
    code, told = run(capsys, examples, "-o", tmp_path / "out")
    assert code == 0 and set(told["card"]["splits"]) == {"train", "eval"}


@pytest.mark.parametrize("there", [False, True])
def test_a_report_that_failed_leaves_its_folder_as_it_was(tmp_path, capsys, there):
    (tmp_path / "empty").mkdir()
    output = tmp_path / "report"
    if there:
        output.mkdir()
        (output / "mine.txt").write_text("x")
    assert main(["data", "report", str(tmp_path / "empty"), "-o", str(output)]) == 2
    assert "Looked for" in capsys.readouterr().err
    assert [path.name for path in output.glob("*")] == (["mine.txt"] if there else [])
    assert output.exists() == there
