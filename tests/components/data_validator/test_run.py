import dataclasses
import os

import pytest
from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies

from components.data_validator.run import run
from detection_core.artifacts.blessing import read_verdict
from detection_core.artifacts.data_findings import FINDINGS
from detection_core.artifacts.data_statistics import ANOMALIES_FILE, SCHEMA_FILE, STATISTICS, split_file
from detection_core.artifacts.dataset_card import CARD, DatasetCard
from detection_core.config.text.text_proto import format_message
from detection_core.errors import ConfigError, DataError
from detection_core.optional.tfdv.schema import CLASS_TEXT, parse_schema
from detection_core.storage import files
from tests.components.data_validator.jobs import BOTH, job_of
from tests.support.made_examples import Made

CLEAN = {"train": [BOTH] * 20, "eval": [BOTH] * 4}
LEAKED = dataclasses.replace(BOTH, picture=7)
LEAKING = {"train": [BOTH] * 20 + [LEAKED], "eval": [BOTH] * 3 + [LEAKED]}
STOP = {"severity": "stop"}


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """A job on clean examples, and what running it returned."""
    job = job_of(tmp_path_factory.mktemp("clean"), CLEAN)
    return job, run(job)


def test_clean_examples_are_blessed(clean):
    job, report = clean
    assert report == {"stop_reasons": "", "blessed": True, "findings": 0, "images": 24}
    assert read_verdict(job.blessing).blessed
    found = FINDINGS.read(job.anomalies)
    made = {name: how for name, how in found.checks.items() if how != "passed"}
    assert set(made) == {"unmatched_boxes", "span_drift", "baseline_drift", "split_drift", "folder_drift"}
    assert found.images == {"train": 20, "eval": 4}
    statistics = STATISTICS.read(job.statistics)
    assert statistics.classes == ["cat", "dog"] and statistics.splits["train"].objects == 40


def test_a_finding_warns_and_the_run_goes_on_and_equal_examples_give_equal_files(tmp_path):
    job, again = job_of(tmp_path, LEAKING), job_of(tmp_path / "again", LEAKING)
    report = run(job)
    assert run(again) == report
    assert FINDINGS.read(job.anomalies) == FINDINGS.read(again.anomalies)
    assert STATISTICS.read(job.statistics) == STATISTICS.read(again.statistics)
    assert report["stop_reasons"] == "" and report["findings"] == 1
    verdict = read_verdict(job.blessing)
    assert verdict.blessed and "1 of 4 images of eval are in train, too" in verdict.reasons[0]


def test_what_the_settings_stop_at_is_not_blessed_and_shown(tmp_path):
    job = job_of(tmp_path, LEAKING, checks={"leakage": STOP})
    report = run(job)
    assert "1 of 4 images of eval are in train, too" in report["stop_reasons"]
    assert not read_verdict(job.blessing).blessed
    [finding] = FINDINGS.read(job.anomalies).findings
    [example] = finding.examples
    assert (example.source_id, example.other.source_id) == ("image-24", "image-20")
    assert (tmp_path / "anomalies" / "pictures" / example.picture).read_bytes().startswith(b"\xff\xd8\xff")


def test_examples_that_do_not_fit_a_schema_of_ones_own_stop_the_run(tmp_path, clean):
    curated = files.read_text(os.path.join(clean[0].schema, SCHEMA_FILE))
    assert run(job_of(tmp_path / "same", CLEAN, schema_text=curated))["findings"] == 0
    # As a person edits it: dogs are not expected any more, and images have a height of 64 at least.
    schema = parse_schema(curated, "schema")
    for domain in schema.string_domain:
        if domain.name == CLASS_TEXT:
            domain.value[:] = ["cat"]
    for feature in schema.feature:
        if feature.name == "image/height":
            feature.int_domain.min = 64
    job = job_of(tmp_path / "other", CLEAN, schema_text=format_message(schema), checks={"schema": STOP})
    reasons = run(job)["stop_reasons"]
    assert "image/height (Unexpectedly small value: 48.)" in reasons and "dog (~50%)" in reasons
    anomalies = Anomalies.FromString(files.read_bytes(split_file(job.anomalies, "eval", ANOMALIES_FILE)))
    assert sorted(anomalies.anomaly_info) == ["image/height", CLASS_TEXT] and anomalies.baseline == schema
    assert parse_schema(files.read_text(os.path.join(job.schema, SCHEMA_FILE)), "written") == schema
    with pytest.raises(ConfigError, match="expected a feature"):
        run(job_of(tmp_path / "none", CLEAN, schema_text=" "))


def test_unknown_checks_and_missing_examples_are_refused_and_what_a_schema_asks_for_is_told(tmp_path):
    with pytest.raises(ConfigError, match="expected one of class_without_objects"):
        run(job_of(tmp_path, CLEAN, checks={"x": {}}))
    with pytest.raises(DataError, match="found none"):
        run(job_of(tmp_path / "other", {"train": [], "eval": []}))
    asked = "skew_comparator { infinity_norm { threshold: 0.1 } }"
    text = f"feature {{ name: 'image/height' type: INT {asked} }}"
    job = job_of(tmp_path / "asked", CLEAN, schema_text=text, checks={"schema": {"threshold": 100}})
    run(job)
    assert "skew_comparator of image/height" in FINDINGS.read(job.anomalies).checks["schema"]


def test_data_are_compared_with_those_of_the_deployed_model(tmp_path):
    trained = job_of(tmp_path / "first", {"train": [BOTH] * 60, "eval": [BOTH]})
    run(trained)
    baseline = tmp_path / "baseline"
    files.write_text(str(baseline / "Format-Serving" / "saved_model.pb"), "graph")
    statistics = str(baseline / "Format-Serving" / "assets.extra" / "detflow" / STATISTICS.name)
    files.copy_file(STATISTICS.path(trained.statistics), statistics)
    stop = {"vanished_class": STOP}
    for name, made, how, findings in (("same", BOTH, "passed", 0), ("other", Made(), "warn", 2)):
        splits = {"train": [made] * 60, "eval": [made]}
        job = job_of(tmp_path / name, splits, baseline=str(baseline), checks=stop)
        report = run(job)
        assert FINDINGS.read(job.anomalies).checks["baseline_drift"] == how
        assert report["findings"] >= findings and (report["findings"] == 0) == (how == "passed")
    lost = "no object of 1 class that what the deployed model was trained on had: dog"
    assert lost in report["stop_reasons"]


def test_a_baseline_that_tells_nothing_or_nonsense_is_no_error(tmp_path):
    serving = tmp_path / "baseline" / "Format-Serving"
    files.write_text(str(serving / "saved_model.pb"), "graph")
    for text in (None, "{", '{"classes": 1}'):
        if text:
            files.write_text(str(serving / "assets.extra" / "detflow" / STATISTICS.name), text)
        job = job_of(tmp_path / repr(text), CLEAN, baseline=str(tmp_path / "baseline"))
        assert run(job)["blessed"]
        assert "no statistics" in FINDINGS.read(job.anomalies).checks["baseline_drift"]


def _span(number, made, count=40):
    return [dataclasses.replace(made, source_id=f"{number}/{i}") for i in range(count)]


def test_spans_are_compared_where_the_examples_are_of_several(tmp_path):
    job = job_of(tmp_path, {"train": [*_span(1, BOTH), *_span(2, Made())], "eval": [BOTH]})
    CARD.write(job.examples, DatasetCard(spans={"train": ["1", "2"]}))
    run(job)
    found = {f.id for f in FINDINGS.read(job.anomalies).findings}
    assert {"vanished_class:span 2 against span 1", "span_drift:span 2 against span 1"} <= found
    assert list(STATISTICS.read(job.statistics).spans) == ["1", "2"]


def _one_span(tmp_path, number, made, **given):
    """The examples of a run whose window is one span."""
    splits, folder = {"train": _span(number, made, 60)}, str(tmp_path / "spans")
    job = job_of(tmp_path / str(number), splits, span_folder=folder, **given)
    CARD.write(job.examples, DatasetCard(spans={"train": [str(number)]}))
    return job


def test_a_span_is_compared_with_those_before_it_that_are_no_longer_read(tmp_path):
    first = _one_span(tmp_path, 1, BOTH)
    run(first)
    assert FINDINGS.read(first.anomalies).checks["span_drift"].startswith("span 1 is the first")
    second = _one_span(tmp_path, 2, BOTH, earlier_spans={"1": "digest"})
    assert run(second)["findings"] == 0
    assert FINDINGS.read(second.anomalies).checks["span_drift"] == "passed"
    # The third has no dogs: the run stops, and what it has seen is not what later ones are compared with.
    given = {"earlier_spans": {"1": "d", "2": "d"}, "checks": {"vanished_class": STOP}}
    reasons = run(_one_span(tmp_path, 3, Made(), **given))["stop_reasons"]
    assert "span 3 has no object of 1 class that spans 1 to 2 had: dog" in reasons
    assert sorted(os.listdir(tmp_path / "spans")) == ["1", "2"]


def test_too_many_images_are_not_compared_by_their_looks(tmp_path):
    job = job_of(tmp_path, CLEAN, near_duplicate_images=23, decode_images="none")
    run(job)
    found = FINDINGS.read(job.anomalies)
    assert "24 images are more than validation.near_duplicate_images, 23" in found.checks["near_leakage"]
    assert found.decoded == 0


def test_boxes_are_judged_by_the_config_as_trainer_has_it(tmp_path):
    small = {"model.ssd.image_resizer": "{fixed_shape_resizer {height: 32 width: 32}}"}
    tiny = Made(boxes=((0.1, 0.1, 0.17, 0.5), (0.5, 0.5, 0.9, 0.9)), classes=("cat", "dog"))
    found = {}
    # The detector that is built for its anchors has the label map's classes where the config has none.
    for name, overrides in (("config", {"model.ssd.num_classes": "unset"}), ("small", small)):
        checks = {"unmatched_boxes": {"severity": "warn"}}
        splits = {"train": [tiny] * 20, "eval": [tiny]}
        job = job_of(tmp_path / name, splits, overrides=overrides, checks=checks)
        run(job)
        found[name] = {f.id: f.measured for f in FINDINGS.read(job.anomalies).findings}
    assert "tiny_boxes:train" not in found["config"] and found["small"]["tiny_boxes:train"] == 0.5
    assert found["config"]["unmatched_boxes:train"] == 0.5


def test_numbers_and_texts_that_no_image_has_break_nothing(tmp_path):
    """As records of other tools may hold them; what ExampleGen writes it has checked."""
    nan, inf = float("nan"), float("inf")
    odd = [
        Made(boxes=((nan, 0.1, 0.5, 0.5), (0.1, 0.1, inf, 0.5)), classes=("cat", "cat")),
        Made(boxes=((0.9, 0.9, 0.1, 0.1), (-3.0, 0.2, 7.0, 0.2)), classes=("cat", "dog"), picture=3),
        Made(filename="a\nb/\x1b[31mc.png", source_id="é\u202e\x00"),
        Made(data=b"<?xml version='1.0'?>", size=(1, 1)),
    ]
    job = job_of(tmp_path, {"train": [*odd, BOTH], "eval": [*odd, BOTH]}, decode_images="all")
    run(job)
    found = {f.id for f in FINDINGS.read(job.anomalies).findings}
    assert {"undecodable_images:train", "leakage:eval"} <= found
