from __future__ import annotations

import json

import pytest

from component_specs import DataValidatorJob
from components.data_validator.run import run
from detection_core.artifacts.blessing import read_verdict
from detection_core.artifacts.data_findings import FINDINGS
from detection_core.artifacts.data_statistics import STATISTICS
from detection_core.errors import ConfigError, DataError
from tests.detection_core.validation.made_examples import Made, write_examples

BOTH = Made(boxes=((0.1, 0.1, 0.5, 0.5), (0.5, 0.5, 0.9, 0.9)), classes=("cat", "dog"))


def _job(tmp_path, splits, **given):
    examples = write_examples(tmp_path / "examples", splits)
    outputs = {name: str(tmp_path / name) for name in ("statistics", "anomalies", "blessing")}
    return DataValidatorJob(examples=examples, **outputs, **given)


def _clean():
    return {"train": [BOTH] * 20, "eval": [BOTH] * 4}


def _leaking():
    leaked = Made(picture=7, boxes=BOTH.boxes, classes=BOTH.classes)
    return {"train": [BOTH] * 20 + [leaked], "eval": [BOTH] * 3 + [leaked]}


def test_clean_examples_are_blessed(tmp_path):
    job = _job(tmp_path, _clean())
    report = run(job)
    assert report == {"stop_reasons": "", "blessed": True, "findings": 0, "images": 24}
    assert read_verdict(job.blessing).blessed
    found = FINDINGS.read(job.anomalies)
    assert set(found.checks.values()) == {"passed"} and found.images == {"train": 20, "eval": 4}
    statistics = STATISTICS.read(job.statistics)
    assert statistics.classes == ["cat", "dog"] and statistics.splits["train"].objects == 40


def test_a_finding_warns_and_the_run_goes_on(tmp_path):
    job = _job(tmp_path, _leaking())
    report = run(job)
    assert report["stop_reasons"] == "" and report["findings"] == 1
    verdict = read_verdict(job.blessing)
    assert verdict.blessed and "1 of 4 images of eval are in train too" in verdict.reasons[0]


def test_what_the_settings_stop_at_is_not_blessed_and_shown(tmp_path):
    job = _job(tmp_path, _leaking(), checks={"leakage": {"severity": "stop"}})
    report = run(job)
    assert "1 of 4 images of eval are in train too" in report["stop_reasons"]
    assert not read_verdict(job.blessing).blessed
    [finding] = FINDINGS.read(job.anomalies).findings
    [example] = finding.examples
    assert (example.source_id, example.other.source_id) == ("image-24", "image-20")
    assert (tmp_path / "anomalies" / "pictures" / example.picture).read_bytes().startswith(b"\xff\xd8\xff")


def test_equal_examples_give_equal_files(tmp_path):
    texts = []
    for place in ("one", "two"):
        job = _job(tmp_path / place, _leaking())
        run(job)
        texts.append([FINDINGS.path(job.anomalies), STATISTICS.path(job.statistics)])
    for one, two in zip(*texts, strict=True):
        with open(one) as first, open(two) as second:
            assert json.load(first) == json.load(second)


def test_a_check_that_there_is_not_and_missing_examples_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected one of class_without_objects"):
        run(_job(tmp_path, _clean(), checks={"x": {}}))
    (tmp_path / "examples" / "Split-eval" / "examples-00000-of-00001.tfrecord").unlink()
    with pytest.raises(DataError, match="found none"):
        run(DataValidatorJob(examples=str(tmp_path / "examples"), statistics="", anomalies="", blessing=""))
