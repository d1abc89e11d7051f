"""What a page says of artifacts."""

import re

from detection_core.artifacts.data_findings import FINDINGS, DataFindings, Finding, FoundExample, OtherExample
from detection_core.artifacts.dataset_card import CARD, ClassCard, DatasetCard, QuarantinedEntry
from detection_core.artifacts.evaluation import (
    MAP,
    MAP_50,
    MASK_METRICS,
    SHAPE_MAP_50,
    TIDE_METRICS,
    ClassCurve,
    Confusion,
    Curves,
    EvalReport,
    EvalSlice,
    MetricInterval,
    ThresholdVerdict,
    slice_metric,
)
from detection_core.artifacts.pictures import PICTURES, PictureEntry
from detection_core.report.data_page import DatasetSummary, FindingsSummary, data_page, embed_samples
from detection_core.report.evaluation import EvaluationSummary, curve_chart, metric_table
from detection_core.report.figures import SERIES
from detection_core.report.page import PictureBudget, benchmark_page, render
from tests.support.artifact_samples import benchmark

JPEG = b"\xff\xd8\xff picture"


def curves_of(classes):
    curve = {"recall": [0, 1], "precision": [1, 0.5]}
    entries = [ClassCurve(name=f"class {c}", ap50=c / classes, **curve) for c in range(classes)]
    labels = [*(e.name for e in entries), "background"]
    matrix = [[3 * (i == j) for j in range(classes + 1)] for i in range(classes + 1)]
    return Curves(classes=entries, score_threshold=0.5, confusion=Confusion(labels=labels, matrix=matrix))


def summary_of(classes=2):
    verdict = ThresholdVerdict(metric=MAP, text=f"{MAP} is 0.5000, below 0.6", passed=False)
    report = EvalReport(metrics={MAP: 0.5}, thresholds=(verdict,))
    return EvaluationSummary(id="e", title="Float", report=report, pictures={}, curves=curves_of(classes))


def test_tables_curves_and_confusion_show_what_can_be_read():
    table = metric_table([("a", {MAP: 0.5, MAP_50: 0.7}), ("b", {MAP: 0.4})])
    assert table["columns"] == ["a", "b"] and len(table["rows"]) == 12
    assert table["rows"][0]["values"] == [0.5, 0.4] and table["rows"][1]["values"] == [0.7, None]
    posed = metric_table([("a", {MAP: 0.5}), ("b", {SHAPE_MAP_50["keypoints"]: 0.3})])["rows"]
    assert len(posed) == 13 and posed[-1]["words"] == "keypoints, mAP at OKS .50"
    assert posed[-1]["values"] == [None, 0.3]
    errors = metric_table([("a", dict.fromkeys(TIDE_METRICS["tide_mask_metrics"], 0.1))])["rows"][12:]
    assert [row["words"] for row in errors][:2] == [
        "masks, mAP at IoU .50 by TIDE",
        "masks, mAP at IoU .50 gained without classification errors",
    ]
    (row,) = metric_table([("a", {"own": 1.0})], ["own"])["rows"]
    assert row == {"name": "own", "words": "own", "values": [1.0]}
    chart, left_out = curve_chart(curves_of(40), "Float")
    assert chart is not None and left_out == 40 - SERIES
    assert curve_chart(Curves(classes=[], score_threshold=0.5), "Float") == (None, 0)
    assert "Taken for" not in _shown(summary_of(40))  # too large to read
    page = _shown(summary_of())
    matrix = page.partition("Taken for")[2]
    shades = re.findall(r"--(shade|wrong)\),([0-9.]+)\)", matrix)
    assert shades == [("shade", "0.58")] * 3 and 'title="100 %"' in matrix
    assert '<span class="note">is 0.5000, below 0.6<' in page


def _shown(summary):
    return render("evaluation_page.html", {"e": summary, "metric_table": metric_table([])})


def test_slices_are_rows_of_each_shape_that_is_measured():
    day, night = (EvalSlice(feature="time_of_day", value=v, images=4, objects=9) for v in ("day", "night"))
    interval = MetricInterval(level=0.95, resamples=10, value=(0.25, 0.75))
    metrics = {slice_metric("time_of_day", "day", of): 0.5 for of in (MAP, MASK_METRICS[0])}
    metrics[slice_metric("time_of_day", "night")] = -1.0
    intervals = {slice_metric("time_of_day", "day"): interval}
    report = EvalReport(metrics=metrics, intervals=intervals, slices=(day, night))
    summary = EvaluationSummary(id="e", title="Float", report=report, pictures={})
    words = ["time of day: day", "time of day: day, masks", "time of day: night"]
    assert [row["words"] for row in summary.slices] == words
    assert [row["interval"] for row in summary.slices] == [interval, None, None]
    page = render("evaluation_page.html", {"e": summary, "metric_table": metric_table([("a", metrics)])})
    assert "time of day: day, masks" in page and "0.250 to 0.750" in page and page.count("Slices") == 1
    assert summary_of().slices == []


def test_what_is_too_much_for_a_page_is_counted():
    rows = [QuarantinedEntry(split="train", record=str(i)) for i in range(60)]
    summary = DatasetSummary(card=DatasetCard(), quarantined=rows, folder="/e")
    page = render("dataset_page.html", {"dataset": summary})
    assert page.count("<td>train</td>") == 50 and "10 more in <code>/e/quarantine.jsonl</code>" in page
    classes = [ClassCard(id=n + 1, name=f"c{n}", objects=n % 1500) for n in range(3000)]
    summary = DatasetSummary(card=DatasetCard(classes=classes))
    assert len(summary.classes) == 1000
    assert {c.objects for c in summary.classes} == set(range(1000, 1500))
    assert list(summary.classes) == sorted(summary.classes, key=lambda c: c.id)
    page = render("dataset_page.html", {"dataset": summary})
    assert "2\u202f000 classes with fewer objects" in page
    assert (page.count("width:100%"), page.count("width:67%")) == (16, 24)  # of 1,499 objects, rounded
    few = DatasetSummary(card=DatasetCard(classes=classes[:1]))
    assert list(few.classes) == classes[:1] and "more in" not in page
    page = render("dataset_page.html", {"dataset": few})
    assert "width:0%" in page and "with fewer objects" not in page


def test_samples_are_embedded_by_class_within_the_budget(tmp_path):
    place = tmp_path / "pictures"
    place.mkdir()
    kinds = ["sample", "smallest", "sample", "sample", "miss"]
    entries = []
    for number, caption in enumerate(("cat", "dog, 3 px", "dog", "cat", "cat")):
        (place / f"{number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes(300))
        named = {"source_id": f"train: {number}", "file": f"{number}.jpg"}
        entries.append(PictureEntry(kind=kinds[number], caption=caption, **named))
    PICTURES.write(str(place), entries)
    samples, smallest = embed_samples(str(tmp_path), PictureBudget(10_000))
    sources = {name: [p.source_id for p in found] for name, found in samples.items()}
    assert sources == {"cat": ["train: 0", "train: 3"], "dog": ["train: 2"]}
    assert [p.caption for p in smallest] == ["dog, 3 px"]
    samples, smallest = embed_samples(str(tmp_path), PictureBudget(900))
    # One of each class comes first, then the smallest boxes.
    assert {name: len(found) for name, found in samples.items()} == {"cat": 1, "dog": 1} and not smallest
    assert embed_samples("", PictureBudget(900)) == ({}, [])
    assert embed_samples(str(tmp_path / "nothing"), PictureBudget(900)) == ({}, [])


def _summary(tmp_path, picture="000.jpg"):
    (tmp_path / "pictures").mkdir(exist_ok=True)
    (tmp_path / "pictures" / "000.jpg").write_bytes(JPEG)
    other = OtherExample(split="train", source_id="b", record=2)
    said = {"split": "eval", "source_id": "<a>", "record": 1, "note": "the same image", "picture": picture}
    found = {"id": "leakage:eval", "check": "leakage", "severity": "stop", "message": "1 of 4 <images>"}
    finding = Finding(**found, measured=0.25, threshold=0.0, examples=[FoundExample(other=other, **said)])
    checks = {"leakage": "stop", "drift": "nothing before"}
    return FindingsSummary(found=DataFindings(findings=[finding], checks=checks), folder=str(tmp_path))


def _page(found, folder):
    FINDINGS.write(str(folder), found)
    CARD.write(str(folder), DatasetCard(format="coco"))
    return data_page(str(folder))


def test_a_page_shows_verdict_message_picture_and_what_was_not_checked(tmp_path):
    summary = _summary(tmp_path)
    [shown] = summary.shown
    assert shown.pictures[0].source_id == "eval: <a> | train: b"
    page = _page(summary.found, tmp_path)
    assert page.count("data:image/jpeg;base64,") == 1 and "1 of 4 &lt;images&gt;" in page
    assert "refused" in page and "drift (nothing before)" in page and "://" not in page
    page = _page(DataFindings(findings=[], images={"train": 4}), tmp_path)
    assert "Nothing was found" in page and "passed" in page
    assert summary.list == str(tmp_path / "findings.json")
    assert "<code>findings.json</code>" in page and str(tmp_path) not in page, (
        "it may be moved with its folder"
    )


def test_a_picture_is_a_name_in_its_folder_and_a_jpeg_file(tmp_path):
    (tmp_path / "secret.jpg").write_bytes(JPEG)
    for name in ("../secret.jpg", "/etc/passwd", "..\\secret.jpg", ".hidden", "none.jpg"):
        assert _summary(tmp_path, picture=name).shown[0].pictures == [], name
    summary = _summary(tmp_path)
    (tmp_path / "pictures" / "000.jpg").write_bytes(b"<script>")
    assert summary.shown[0].pictures == [] and summary.shown[0].finding.examples


def test_the_page_has_every_figure_and_escapes_what_it_shows():
    page = benchmark_page(benchmark())
    figures = ("2.00", "3.50", "500.0", "1.250 (2, 2)")
    for text in ("a/m.tflite", *figures, "CONV_2D", "a &lt;note&gt;", "unknown"):
        assert text in page
    assert "<m>" not in page and "b/&lt;m&gt;.tflite" in page
    assert "<script" not in page and page.count("<table>") == 3
