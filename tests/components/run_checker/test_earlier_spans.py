import dataclasses

import pytest

from component_specs import RunCheckerJob
from component_specs.example_gen import Spans
from components.run_checker.earlier_spans import earlier_spans, span_folder
from detection_core.artifacts.data_statistics import SampleStatistics
from detection_core.validation.span_history import keep_spans


@pytest.fixture
def job(tmp_path):
    return RunCheckerJob(
        data_path="/data/{SPAN}", push_destination="/p", splits={"train": 1.0}, work_dir=str(tmp_path)
    )


def _keep(job, *spans):
    kept = {span: SampleStatistics(images=int(span[-2:])) for span in spans}
    keep_spans(span_folder(job, Spans(train=("1",))), kept)


def test_the_spans_before_those_of_the_run_are_compared_with(job):
    assert earlier_spans(job, Spans(train=("3",))) == {}
    _keep(job, "1", "2", "10", "3", "4")
    assert list(earlier_spans(job, Spans(train=("3", "4")))) == ["1", "2"]
    assert list(earlier_spans(job, Spans(train=("11",)))) == ["1", "2", "3", "4", "10"]
    for count, spans in ((2, ["4", "10"]), (0, [])):
        few = dataclasses.replace(job, compared_spans=count)
        assert list(earlier_spans(few, Spans(train=("11",)))) == spans


def test_dates_are_in_their_order_and_other_names_are_no_spans(job, tmp_path):
    _keep(job, "2026-11-07", "2026-10-31", "99", "99")
    folder = span_folder(job, Spans(train=("1",)))
    (tmp_path / folder / "notes").mkdir()
    assert list(earlier_spans(job, Spans(train=("2026-11-21",)))) == ["2026-10-31", "2026-11-07"]


def test_a_repeated_run_finds_what_the_first_found_and_a_changed_past_is_another_one(job):
    _keep(job, "1")
    before = earlier_spans(job, Spans(train=("2",)))
    _keep(job, "2")
    assert earlier_spans(job, Spans(train=("2",))) == before
    keep_spans(span_folder(job, Spans(train=("1",))), {"1": SampleStatistics(images=77)})
    assert earlier_spans(job, Spans(train=("2",))) != before


def test_each_data_set_has_a_history_of_its_own(job):
    spans = Spans(train=("1",))
    changes = ({}, {"data_path": "/other/{SPAN}"}, {"splits": {"train": 0.5, "eval": 0.5}})
    assert len({span_folder(dataclasses.replace(job, **change), spans) for change in changes}) == 3
    assert span_folder(job, Spans()) == "" and span_folder(dataclasses.replace(job, work_dir=""), spans) == ""
