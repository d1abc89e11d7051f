from tests.pipeline.conftest import DIGITS
from tests.support.dataset_files import write_voc


def test_a_preview_of_a_folder_prints_its_seed_and_takes_one_source(tmp_path, cli):
    data = write_voc(tmp_path / "data", names=tuple("abcdefgh"))
    words = ["data", "preview", DIGITS / "pipeline.config", "-o", tmp_path / "out", "--data", data]
    told = cli.json(*words, "--seed", 4, "-n", 3)
    assert told["seed"] == 4 and len(told["source_ids"]) == 3
    assert (tmp_path / "out" / "contact_sheet.png").read_bytes().startswith(b"\x89PNG")
    assert "seed 4" in (tmp_path / "out" / "index.html").read_text()
    assert not (tmp_path / "out" / ".examples").exists()
    assert "found both" in cli.json(*words, "--examples", data, code=2)["message"]
