import json

from detection_core.datasets.annotated_images import Rejection
from detection_core.datasets.quarantine import check_limit, count_reasons, write_quarantine
from detection_core.errors import DataError
from tests.support.cases import refused
from tests.support.dataset_files import subfolder

QUARANTINE = {
    "train": [Rejection("b.jpg", "2", "missing_image", "there is no such file")] * 2,
    "eval": [Rejection("a.jpg", "1", "box_outside", 'said "so"')],
}


def test_a_list_is_written_as_lines_and_only_above_the_limit(tmp_path):
    write_quarantine(str(tmp_path / "list.jsonl"), QUARANTINE)
    lines = [json.loads(line) for line in (tmp_path / "list.jsonl").read_text().splitlines()]
    assert [line["split"] for line in lines] == ["eval", "train", "train"]
    outside = {"split": "eval", "file": "a.jpg", "record": "1", "reason": "box_outside"}
    assert lines[0] == {**outside, "detail": 'said "so"'}
    found = count_reasons([*QUARANTINE["eval"], *QUARANTINE["train"]])
    assert list(found.items()) == [("missing_image", 2), ("box_outside", 1)]
    below = subfolder(tmp_path, 1)
    path = below / "list.jsonl"
    check_limit(QUARANTINE, 300, 0.01, str(path))
    check_limit({"train": []}, 300, 0.0, str(path))
    assert not path.exists()
    text = str(refused(DataError, "at most 1.00%", check_limit, QUARANTINE, 299, 0.01, str(path)))
    for part in (str(path), "3 of 299", "missing_image 2, box_outside 1", "quarantine_limit"):
        assert part in text
    assert len(path.read_text().splitlines()) == 3
