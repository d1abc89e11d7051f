"""The page of a run: what it tells, and what it leaves out."""

import dataclasses
import html.parser
import json
import logging
import os
import re
import shutil
from unittest import mock

import markupsafe
import pytest

from detection_core.artifacts.data_findings import FINDINGS, DataFindings
from detection_core.artifacts.dataset_card import CARD, DatasetCard, Totals
from detection_core.report.page import CONTENT_SECURITY_POLICY
from detection_core.report.pictures import PictureBudget
from detection_core.storage import files
from pipeline.report import write_report
from pipeline.report.writer import render_report
from tests.support.fixture_run import write_run
from tests.support.run_records import record, step

VOID = {"meta", "img", "br", "wbr", "path", "use", "line", "rect"}


class Page(html.parser.HTMLParser):
    """Collects what a test asks of a page, and fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids, self.text = [], [], [], ""
        self._open = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        found = dict(attrs)
        self.text += found.get("alt") or ""
        self.links += [found[k] for k in ("src", "href", "xlink:href", "action") if found.get(k)]
        self.ids += [found["id"]] if "id" in found else []
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] != ["style"]:
            self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), images=16)


@pytest.fixture(scope="module")
def text(run):
    with mock.patch.object(logging.Logger, "warning") as warn:
        found = render_report(run)
    assert not warn.called, "every artifact of a whole run is on its page"
    return found


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_one_file_without_script_or_link_elsewhere_and_the_same_each_time(run, text, page, tmp_path):
    write_report(run, str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").read_text() == text
    assert len(text) < 3_000_000
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
    with open(f"{evaluation}/pictures/index.json") as f:
        captions = [entry["caption"] for entry in json.load(f)]
    assert captions and [caption for caption in captions if caption not in page.text] == []


def test_parts_that_are_missing_are_left_out_and_pictures_stop_at_the_budget(run, monkeypatch):
    def rendered(*keep):
        unrun = {"outputs": {}, "state": "not run"}
        steps = tuple(s if s.id in keep else dataclasses.replace(s, **unrun) for s in run.steps)
        return Page(render_report(dataclasses.replace(run, steps=steps)))

    for keep in ((), ("example_gen",), ("trainer",), ("tflite_exporter", "pusher"), ("quantized_evaluator",)):
        page = rendered(*keep)
        for title, made_by in (
            ("Quantized detector", "quantized_evaluator"),
            ("TensorFlow Lite", "tflite_exporter"),
            ("Quarantine", "example_gen"),
            ("Training: loss", "trainer"),
        ):
            assert (title in page.text) == (made_by in keep), (title, keep)
    monkeypatch.setattr("detection_core.report.pictures.PictureBudget.__init__.__defaults__", (100_000,))
    page = rendered("evaluator")
    pictures = [link for link in page.links if link.startswith("data:image/jpeg")]
    assert 0 < sum(map(len, pictures)) <= 100_000 + 30 * len(pictures)
    assert "All pictures:" in page.text


def test_a_failed_run_says_where_and_why_and_a_refused_detector_is_not_called_published(tmp_path):
    error = "loss is <NaN> at step 7"
    trainer = step("trainer", "failed", seconds=3.0, error=error)
    steps = (step("example_gen", seconds=1.0), trainer, step("pusher", "not run"))
    page = Page(render_report(record(*steps, status="failed", started="2026-01-01T00:00:00+00:00")))
    assert "Failed at trainer" in page.text
    assert page.text.count(error) == 2
    assert "4.0 s" in page.text
    reasons = ["evaluator: mAP is 0.2, below 0.85"]
    (tmp_path / "pushed.json").write_text(json.dumps({"pushed": False, "version": None, "reasons": reasons}))
    page = Page(render_report(record(step("pusher", outputs={"pushed_model": str(tmp_path)}))))
    assert "Not published" in page.text
    assert reasons[0] in page.text


def test_damaged_artifacts_cost_their_part_of_the_page_alone(run, tmp_path, caplog):
    copy = tmp_path / "artifacts"
    shutil.copytree(f"{run.workspace}/artifacts", copy)
    for name in ("evaluator/evaluation/metrics.json", "example_gen/examples/dataset_card.json"):
        (copy / name).write_text("{")
    history = copy / "trainer" / "model_run" / "history.jsonl"
    history.write_text(history.read_text()[:-30])
    (copy / "quantized_evaluator/evaluation/pictures/index.json").unlink()
    steps = tuple(
        dataclasses.replace(s, outputs={n: str(copy / s.id / n) for n in s.outputs}) for s in run.steps
    )
    page = Page(render_report(dataclasses.replace(run, steps=steps)))
    assert "Quantized detector" in page.text and "Training: loss" in page.text
    damaged = (
        ("metrics.json", "[]"),
        ("metrics.json", "{"),
        ("metrics.json", '{"metrics": {"DetectionBoxes_Precision/mAP": "x"}}'),
        ("curves.json", '{"classes": [{"name": "a", "precision": [1], "recall": []}]}'),
        ("curves.json", '{"classes": [], "confusion": {"labels": ["a"], "matrix": []}}'),
        ("pictures/index.json", "[1]"),
    )
    for number, (name, text) in enumerate(damaged):
        caplog.clear()
        folder = tmp_path / str(number)
        files.write_text(str(folder / "metrics.json"), '{"metrics": {}}')
        files.write_text(str(folder / name), text)
        run = record(step("evaluator", outputs={"evaluation": str(folder)}))
        assert "evaluator" in Page(render_report(run)).text
        assert f"{folder}/{name.split('/')[0]}" in caplog.text and "is left out" in caplog.text, text


def test_names_from_data_cannot_become_markup(run, tmp_path):
    copy = tmp_path / "evaluation"
    shutil.copytree(f"{run.workspace}/artifacts/evaluator/evaluation", copy)
    evil = '<script>alert("$x^2$")</script> & _b\x1b[31m'
    curves = json.loads((copy / "curves.json").read_text())
    curves["classes"][0]["name"] = curves["confusion"]["labels"][0] = evil
    (copy / "curves.json").write_text(json.dumps(curves))
    text = render_report(record(step("evaluator", outputs={"evaluation": str(copy)}), pipeline_name=evil))
    page = Page(text)
    assert "script" not in page.tags
    assert page.text.count(evil.replace("\x1b", "\\x1b")) >= 4  # title, heading, table, chart
    assert "\x1b" not in text


def test_a_list_of_pictures_names_no_other_file_of_this_machine(tmp_path):
    (tmp_path / "secret").write_text("s3cret")
    entry = {"kind": "side_by_side", "file": "../secret", "caption": "c"}
    files.write_text(str(tmp_path / "pictures" / "index.json"), json.dumps([entry]))
    assert PictureBudget().embed(str(tmp_path), {"side_by_side": 3})["side_by_side"] == []


def test_the_data_are_shown_as_data_validator_left_them(run, tmp_path):
    """One artifact has all of the data set's section; ExampleGen's files are for runs without it."""
    folder = str(tmp_path / "anomalies")
    CARD.write(folder, DatasetCard(format="of the validator", total=Totals(images=3, objects=5)))
    FINDINGS.write(folder, DataFindings(findings=[]))
    examples = next(s for s in run.steps if s.id == "example_gen")
    validated = record(examples, step("data_validator", outputs={"anomalies": folder}))
    page = render_report(validated)
    assert "3 images, 5 objects, of the validator" in page
    # What an older version validated has findings alone.
    os.remove(CARD.path(folder))
    older = render_report(validated)
    assert "of the validator" not in older and 'id="data"' in older and "Nothing was found" in older


def test_the_page_of_a_run_that_goes_on_loads_itself_again_and_shows_how_far_it_is(text, tmp_path):
    assert "refresh" not in text and "loads itself" not in text
    work = tmp_path / "work" / "0123456789abcdef"
    work.mkdir(parents=True)
    (work / "history.jsonl").write_text('{"step": 7, "loss": 1.25}\n')
    trainer = step("trainer", "running", started="2026-01-01T00:00:00+00:00")
    page = render_report(record(trainer, status="running", workspace=str(tmp_path)))
    assert '<meta http-equiv="refresh" content="20">' in page and "loads itself again" in page
    assert "Training: loss" in page
