from tests.support.dataset_files import Coco, voc_xml, write_voc


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
