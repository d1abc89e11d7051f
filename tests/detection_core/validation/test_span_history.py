import os

from benchmarks.drift_false_alarms import draw_images
from detection_core.validation.span_history import keep_spans, read_spans, span_digests, span_names
from tests.support.cases import cases
from tests.support.dataset_files import subfolder

ONE, TWO = (draw_images(40, {"cat": 1.0}, seed=seed) for seed in (1, 2))


def test_what_is_kept_of_spans_is_small_and_a_folder_that_cannot_be_used_stops_nothing(tmp_path, caplog):
    folder = str(tmp_path / "spans")
    assert span_names(folder) == [] and read_spans(folder, []) == {}
    keep_spans(folder, {"1": ONE, "2026-11-21": TWO})
    assert span_names(folder) == ["1", "2026-11-21"]
    found = read_spans(folder, ["2026-11-21", "1"])
    assert list(found) == ["2026-11-21", "1"] and found["1"] == ONE
    before = span_digests(folder, ["1", "2026-11-21"])
    keep_spans(folder, {"1": TWO})
    after = span_digests(folder, ["1", "2026-11-21"])
    assert before["1"] != after["1"] and before["2026-11-21"] == after["2026-11-21"]
    below = subfolder(tmp_path, 1)
    classes = {f"class {number}": 0.01 for number in range(100)}
    keep_spans(str(below), {"1": draw_images(200, classes, seed=1)})
    assert os.path.getsize(below / "1" / "span_statistics.json") < 20_000
    (tmp_path / "file").write_text("no folder")
    keep_spans(str(tmp_path / "file"), {"1": ONE})
    assert "span 1 is not remembered" in caplog.text
    assert span_names(str(tmp_path / "file")) == []


@cases("{", '{"span": 1}', '{"statistics": {}}', "")
def test_a_damaged_file_leaves_its_span_out(tmp_path, caplog, *, text):
    keep_spans(str(tmp_path), {"1": ONE, "2": TWO})
    (tmp_path / "1" / "span_statistics.json").write_text(text)
    assert list(read_spans(str(tmp_path), ["1", "2", "3"])) == ["2"]
    assert "span 1" in caplog.text and "span 3" in caplog.text
    assert list(span_digests(str(tmp_path), ["2", "3"])) == ["2"]
