import os

from detection_core.artifacts.blessing import blessing_reasons, is_blessed, read_verdict, write_blessing
from detection_core.storage import files
from tests.support.cases import cases
from tests.support.storage_faults import KILLED, killed_at, watched


def test_a_blessing_and_a_refusal_after_it_leave_one_marker(tmp_path):
    folder = str(tmp_path / "b")
    for blessed, marker, reasons in (
        (True, "BLESSED", ["mAP is 0.9"]),
        (False, "NOT_BLESSED", ["mAP is 0.1"]),
    ):
        write_blessing(folder, blessed, reasons)
        assert sorted(os.listdir(folder)) == [marker, "reasons.json"]
        assert is_blessed(folder) is blessed and blessing_reasons(folder) == reasons


def test_a_killed_refusal_leaves_no_blessing_behind(tmp_path):
    for at in range(1, 12):
        folder = str(tmp_path / str(at))
        write_blessing(folder, True, [])
        with watched(killed_at(at)) as changes:
            try:
                write_blessing(folder, False, ["mAP is 0.1"])
            except KILLED:
                assert at == 1 or not is_blessed(folder)
    assert changes.made < 11


@cases("BLESSED", "NOT_BLESSED")
def test_a_marker_alone_is_a_verdict_of_others(tmp_path, *, marker):
    (tmp_path / marker).touch()
    assert is_blessed(str(tmp_path)) is (marker == "BLESSED") and blessing_reasons(str(tmp_path)) == []


@cases(
    ({"BLESSED": "", "NOT_BLESSED": ""}, "found BLESSED and NOT_BLESSED"),
    ({}, "found neither"),
    ({"BLESSED": "", "reasons.json": '{"blessed": false, "reasons": []}'}, "found the contrary"),
    ({"BLESSED": "", "reasons.json": "{"}, "expected the JSON that a gate writes"),
    ({"BLESSED": "", "reasons.json": "[]"}, "expected the JSON that a gate writes"),
)
def test_a_verdict_that_contradicts_itself_blesses_nothing(tmp_path, *, names, message):
    for name, text in names.items():
        files.write_text(str(tmp_path / name), text)
    verdict = read_verdict(str(tmp_path))
    assert not verdict.blessed and message in verdict.reasons[0]
