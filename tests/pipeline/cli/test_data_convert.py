import json

from pipeline.cli import parser
from tests.support.dataset_files import Coco, voc_xml, write_voc


def test_a_data_set_is_converted_and_said_in_words_and_as_json(tmp_path, capsys):
    write_voc(tmp_path / "in", names=["a", "b"], b=voc_xml("b", size=("wide", 30)))
    words = ["data", "convert", str(tmp_path / "in"), "-o"]
    assert parser.main([*words, str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert (
        "found: voc: 2 XML files in Annotations/" in out
        and f"1 images, 1 objects in {tmp_path}/out: annotations.json" in out
    )
    assert "1 put aside, listed in" in out
    assert parser.main([*words, str(tmp_path / "again"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["annotations"] == {"": f"{tmp_path}/again/annotations.json"} and data["quarantined"] == 1


def test_an_error_is_one_message(tmp_path, capsys):
    Coco(tmp_path / "in").write()
    assert parser.main(["data", "convert", str(tmp_path / "in"), "-o", str(tmp_path / "in")]) == 2
    assert "ConfigError" in capsys.readouterr().err
    assert parser.main(["data", "convert", str(tmp_path / "none"), "-o", str(tmp_path / "out")]) == 2
    assert "expected the folder of a data set" in capsys.readouterr().err
