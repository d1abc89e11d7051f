import json

from component_specs import ExampleGenJob
from components.example_gen.run import run as make
from tests.support.dataset_files import Coco, write_voc


def test_a_folder_becomes_a_page_without_a_word_about_its_format_and_so_do_examples(tmp_path, cli):
    voc = write_voc(tmp_path / "data", names=tuple("abcdefgh"))
    words, out = ["data", "report", voc, "-o", tmp_path / "out"], tmp_path / "out"
    told = cli.json(*words)
    assert told["page"] == str(out / "index.html")
    assert told["card"]["format"] == "voc" and told["card"]["total"]["images"] == 8
    page = (out / "index.html").read_text()
    assert "<h3>Boxes</h3>" in page and "<h4>cat</h4>" in page and "data:image/jpeg" in page
    assert not (out / ".examples").exists()
    assert cli.json(*words) and (out / "index.html").read_text() == page
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
        told = cli.refused("data", "report", tmp_path / "empty", "-o", tmp_path / folder)
        assert "Looked for" in told
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["empty", "there", "there/mine.txt"]
