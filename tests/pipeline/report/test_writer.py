"""The page of a run or a workspace."""

import dataclasses
import datetime
import json
import logging
import os
import re
import shutil
from unittest import mock

import markupsafe
import numpy as np
import pytest

from detection_core.artifacts.data_findings import FINDINGS, DataFindings
from detection_core.artifacts.dataset_card import CARD, DatasetCard, Totals
from detection_core.artifacts.evaluation import CURVES, MAP, MAP_50, METRICS, ClassCurve, Curves, EvalReport
from detection_core.artifacts.model_run import ValidationLine
from detection_core.artifacts.published import PUSHED
from detection_core.report.page import CONTENT_SECURITY_POLICY, PictureBudget
from detection_core.storage import files
from detection_core.training.validation import PictureFiles, ValidationPicture
from pipeline.report import writer
from tests.support.fixture_run import write_run
from tests.support.html_page import Page
from tests.support.run_records import record, step


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), images=16)


@pytest.fixture(scope="module")
def text(run):
    with mock.patch.object(logging.Logger, "warning") as warn:
        found = writer.render_report(run)
    assert not warn.called, "every artifact of a whole run is on its page"
    return found


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_one_file_without_script_or_link_elsewhere_and_the_same_each_time(run, text, page, tmp_path):
    writer.write_report(run, str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").read_text() == text and len(text) < 3_000_000
    assert "script" not in page.tags
    policy = markupsafe.escape(CONTENT_SECURITY_POLICY)
    assert text.index(f'http-equiv="Content-Security-Policy" content="{policy}"') < text.index("<style>")
    embedded = ("#", "data:image/jpeg;base64,", "data:image/svg+xml;base64,")
    assert all(link.startswith(embedded) for link in page.links)
    assert not re.search(r"url\((?!#)|@import|<link", text)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


TOLD = """\
Published as version 3|every gate blessed it|8 min 41 s|7 steps executed, 1 from cache|5 min 12 s|
Deployed baseline|at least 0.7 as demanded|mAP, small objects|Worst false alarms|Largest objects missed|
Detections beside ground truth|Quantization-aware training: learning rate|61 of 61|peak memory|1.9 GB|
runs in float after the network|model_int8.tflite|3.1 MB|12.9 ms, 1 thread|0.0051 to +0.0292|
within the noise of 100 images|model_int8.tflite, layer by layer|least 30.5 dB at tower_11|
expected xmin < xmax, found <310 and 298>|workspace: build|num_classes: 10"""


def test_what_the_page_tells(run, page):
    assert [said for said in TOLD.replace("\n", "").split("|") if said not in page.text] == []
    # Numbers are those of the artifacts.
    evaluation = f"{run.workspace}/artifacts/evaluator/evaluation"
    with open(f"{evaluation}/metrics.json") as f:
        metrics = json.load(f)
    assert f"{metrics['metrics']['DetectionBoxes_Precision/mAP@.50IOU']:.3f}" in page.text
    assert page.text.count("passed") >= len(metrics["thresholds"])
    with open(f"{evaluation}/pictures/index.jsonl") as f:
        captions = [json.loads(line)["caption"] for line in f]
    assert captions and [caption for caption in captions if caption not in page.text] == []


def test_parts_that_are_missing_are_left_out_and_pictures_stop_at_the_budget(run, monkeypatch):
    def rendered(*keep):
        unrun = {"outputs": {}, "state": "not run"}
        steps = tuple(s if s.id in keep else dataclasses.replace(s, **unrun) for s in run.steps)
        return Page(writer.render_report(dataclasses.replace(run, steps=steps)))

    for keep in ((), ("example_gen",), ("trainer",), ("tflite_exporter", "pusher"), ("quantized_evaluator",)):
        page = rendered(*keep)
        for title, made_by in (
            ("Quantized detector", "quantized_evaluator"),
            ("TensorFlow Lite", "tflite_exporter"),
            ("Quarantine", "example_gen"),
            ("Training: loss", "trainer"),
        ):
            assert (title in page.text) == (made_by in keep), (title, keep)
    monkeypatch.setattr("detection_core.report.page.PictureBudget.__init__.__defaults__", (100_000,))
    page = rendered("evaluator")
    pictures = [link for link in page.links if link.startswith("data:image/jpeg")]
    assert 0 < sum(map(len, pictures)) <= 100_000 + 30 * len(pictures) and "All pictures:" in page.text


def test_a_failed_run_says_where_and_why_and_a_refused_detector_is_not_called_published(tmp_path):
    error = "loss is <NaN> at step 7"
    trainer = step("trainer", "failed", seconds=3.0, error=error)
    steps = (step("example_gen", seconds=1.0), trainer, step("pusher", "not run"))
    page = Page(writer.render_report(record(*steps, status="failed", started="2026-01-01T00:00:00+00:00")))
    assert "Failed at trainer" in page.text and page.text.count(error) == 2 and "4.0 s" in page.text
    reasons = ["evaluator: mAP is 0.2, below 0.85"]
    (tmp_path / "pushed.json").write_text(json.dumps({"pushed": False, "version": None, "reasons": reasons}))
    page = Page(writer.render_report(record(step("pusher", outputs={"pushed_model": str(tmp_path)}))))
    assert "Not published" in page.text and reasons[0] in page.text


def test_damaged_artifacts_cost_their_part_of_the_page_alone(run, tmp_path, caplog):
    copy = tmp_path / "artifacts"
    shutil.copytree(f"{run.workspace}/artifacts", copy)
    for name in ("evaluator/evaluation/metrics.json", "example_gen/examples/dataset_card.json"):
        (copy / name).write_text("{")
    history = copy / "trainer" / "model_run" / "history.jsonl"
    history.write_text(history.read_text()[:-30])
    (copy / "quantized_evaluator/evaluation/pictures/index.jsonl").unlink()
    steps = (dataclasses.replace(s, outputs={n: str(copy / s.id / n) for n in s.outputs}) for s in run.steps)
    page = Page(writer.render_report(dataclasses.replace(run, steps=tuple(steps))))
    assert "Quantized detector" in page.text and "Training: loss" in page.text
    damaged = (
        ("metrics.json", "[]"),
        ("metrics.json", "{"),
        ("metrics.json", '{"metrics": {"DetectionBoxes_Precision/mAP": "x"}}'),
        ("curves.json", '{"classes": [{"name": "a", "precision": [1], "recall": []}]}'),
        ("curves.json", '{"classes": [], "confusion": {"labels": ["a"], "matrix": []}}'),
        ("pictures/index.jsonl", "[1]"),
    )
    for number, (name, text) in enumerate(damaged):
        caplog.clear()
        folder = tmp_path / str(number)
        files.write_text(str(folder / "metrics.json"), '{"metrics": {}}')
        files.write_text(str(folder / name), text)
        run = record(step("evaluator", outputs={"evaluation": str(folder)}))
        assert "evaluator" in Page(writer.render_report(run)).text
        assert f"{folder}/{name.split('/')[0]}" in caplog.text and "is left out" in caplog.text, text


def test_names_from_data_cannot_become_markup(run, tmp_path):
    copy = tmp_path / "evaluation"
    shutil.copytree(f"{run.workspace}/artifacts/evaluator/evaluation", copy)
    evil = '<script>alert("$x^2$")</script> & _b\x1b[31m'
    curves = json.loads((copy / "curves.json").read_text())
    curves["classes"][0]["name"] = curves["confusion"]["labels"][0] = evil
    (copy / "curves.json").write_text(json.dumps(curves))
    text = writer.render_report(
        record(step("evaluator", outputs={"evaluation": str(copy)}), pipeline_name=evil)
    )
    page = Page(text)
    assert "script" not in page.tags
    assert page.text.count(evil.replace("\x1b", "\\x1b")) >= 4  # title, heading, table, chart
    assert "\x1b" not in text


def test_the_data_are_shown_as_data_validator_left_them(run, tmp_path):
    """One artifact has all of the data set's section; ExampleGen's files are for runs without it."""
    folder = str(tmp_path / "anomalies")
    CARD.write(folder, DatasetCard(format="of the validator", total=Totals(images=3, objects=5)))
    FINDINGS.write(folder, DataFindings(findings=[]))
    examples = next(s for s in run.steps if s.id == "example_gen")
    validated = record(examples, step("data_validator", outputs={"anomalies": folder}))
    assert "3 images, 5 objects, of the validator" in writer.render_report(validated)
    # What an older version validated has findings alone.
    os.remove(CARD.path(folder))
    older = writer.render_report(validated)
    assert "of the validator" not in older and 'id="data"' in older and "Nothing was found" in older


def test_the_page_of_a_run_that_goes_on_loads_itself_again_and_shows_how_far_it_is(text, tmp_path):
    assert "refresh" not in text and "loads itself" not in text
    work = tmp_path / "work" / "0123456789abcdef"
    work.mkdir(parents=True)
    (work / "history.jsonl").write_text('{"step": 7, "loss": 1.25}\n')
    trainer = step("trainer", "running", started="2026-01-01T00:00:00+00:00")
    page = writer.render_report(record(trainer, status="running", workspace=str(tmp_path)))
    assert '<meta http-equiv="refresh" content="20">' in page and "loads itself again" in page
    assert "Training: loss" in page


def test_each_evaluator_s_findings_and_the_baseline_of_the_first(tmp_path):
    steps = []
    for id_, baseline in (("evaluator", {MAP: 0.4}), ("quantized_evaluator", {MAP: 0.5})):
        folder = str(tmp_path / id_)
        METRICS.write(folder, EvalReport(metrics={MAP: 0.5, MAP_50: 0.7}, baseline=baseline))
        curve = ClassCurve(name="cat", ap50=0.5, recall=[0, 1], precision=[1, 0.5])
        CURVES.write(folder, Curves(classes=[curve], score_threshold=0.5))
        steps.append(step("evaluator", id=id_, outputs={"evaluation": folder}))
    found = writer.evaluations(record(*steps), PictureBudget())
    assert [e.title for e in found] == ["Float detector", "Quantized detector"]
    assert all(e.chart is not None and e.left_out == 0 for e in found)
    # The quantized detector's baseline is the float one, so it gets no separate column.
    titles = [title for title, _ in writer.metric_columns(found)]
    assert titles == ["Float detector", "Deployed baseline", "Quantized detector"]


def test_bars_are_in_percent_of_the_longest_step_and_outputs_by_component():
    run = record(step("trainer", seconds=2.0), step("pusher", "cached", seconds=0.5))
    text = writer.render_report(run)
    assert re.findall(r"width:(\d+)%", text) == ["100", "25"]
    assert "2.5 s" in text and "1 steps executed, 1 from cache" in text
    quantized = step("evaluator", "cached", id="quantized_evaluator", outputs={"evaluation": "/b"})
    steps = (step("evaluator", outputs={"evaluation": "/a"}), quantized, step("pusher", "not run"))
    run = record(*steps, status="failed")
    assert [s.id for s in writer.steps_of(run, "evaluator")] == ["evaluator", "quantized_evaluator"]
    assert writer.folder_of(run, "evaluator", "evaluation") == "/a"
    assert writer.folder_of(run, "pusher", "pushed_model") == ""


def test_what_is_missing_or_torn_is_not_there(tmp_path, caplog):
    (tmp_path / "pushed.json").write_text('{"pushed": ')
    folder = str(tmp_path)
    assert PUSHED.find_usable("") is PUSHED.find_usable(f"{folder}/nowhere") is None and not caplog.text
    assert PUSHED.find_usable(folder) is None and "pushed.json" in caplog.text
    assert (
        writer.read_text(folder, "pushed.json") == '{"pushed": '
        and writer.read_text(folder, "missing") is None
    )
    (tmp_path / "torn.txt").write_bytes(b"\xff")
    assert writer.read_text(folder, "torn.txt") is None and "torn.txt is left out" in caplog.text
    assert writer.unless_damaged(lambda: 1 / 0, "curves.json", "nothing") == "nothing"
    assert "curves.json is left out: expected the output of its step" in caplog.text
    assert writer.unless_damaged(lambda: 7, "curves.json", "nothing") == 7


NOON = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)


def _training(tmp_path, state="running", started=str(NOON), component="trainer"):
    run = record(step("trainer", state, started=started), status="running", workspace=str(tmp_path))
    return writer.unfinished_training(run, component)


def _history(tmp_path, name, minutes):
    folder = tmp_path / "work" / name
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("{}\n")
    moment = (NOON + datetime.timedelta(minutes=minutes)).timestamp()
    os.utime(folder / "history.jsonl", (moment, moment))
    return str(folder)


def test_it_is_the_one_that_was_written_to_last_since_the_step_began_and_none_where_nothing_trains(tmp_path):
    assert _training(tmp_path) == ""
    _history(tmp_path, "earlier", -5)
    assert _training(tmp_path) == ""
    older = _history(tmp_path, "a", 5)
    assert _training(tmp_path) == older
    newest = _history(tmp_path, "b", 10)
    (tmp_path / "work" / "c").mkdir()
    assert _training(tmp_path) == newest and _training(tmp_path, state="not run") == ""
    assert _training(tmp_path, component="quantization_rewriter") == ""
    assert _training(tmp_path, started="?") == newest


def _artifacts(**outputs):
    return record(step("trainer", outputs={name: str(path) for name, path in outputs.items()}))


def test_a_training_without_history_is_left_out_and_validations_have_known_metrics(tmp_path, monkeypatch):
    artifacts = _artifacts(model_run=tmp_path)
    assert writer.trainings(artifacts) == writer.trainings(_artifacts()) == []
    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    (training,) = writer.trainings(artifacts)
    assert training["loss_chart"].series == ["total"] and training["loss_chart"].lines[0][0]
    assert training["rate_chart"] is None  # no learning rate in the history
    assert training["validation_chart"] is None
    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    (tmp_path / "validation.jsonl").write_text(
        '{"step": 1, "score": 0.5, "metrics": {"DetectionBoxes_Precision/mAP": 0.25}}\n'
        '{"step": 2, "score": null, "metrics": {"DetectionBoxes_Precision/mAP": null}}\n'
    )
    drawn = {}
    monkeypatch.setattr(
        "pipeline.report.writer.line_chart",
        lambda title, _, lines, **options: drawn.setdefault(title, lines),
    )
    writer.trainings(_artifacts(model_run=tmp_path))
    lines = drawn["Training: validation"]
    found = [(line.label, list(line.x), list(line.y)) for line in lines]
    assert found == [("score", [1], [0.5]), ("mAP", [1], [0.25])]


def test_the_same_images_are_shown_at_the_first_the_last_and_a_step_between(tmp_path):
    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    image = np.zeros([8, 16, 3], np.uint8)
    pictures = [ValidationPicture(number=i, source_id=f"image {i}", image=image) for i in range(2)]
    action = PictureFiles(str(tmp_path), lambda: pictures)
    action.start(0)
    for number in (10, 20, 30, 40, 50):
        action.validated(ValidationLine(step=number))
    (training,) = writer.trainings(_artifacts(model_run=tmp_path))
    shown = [(p.source_id, p.caption) for p in training["pictures"]]
    assert shown == [(f"image {i}", f"step {step}") for i in range(2) for step in (10, 30, 50)]
    assert all(p.data.startswith("data:image/jpeg;base64,") for p in training["pictures"])
