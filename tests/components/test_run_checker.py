"""RunChecker by itself; the workflow's view of it is in tests/pipeline/test_run_checks.py."""

import dataclasses
import datetime
import importlib.metadata
import shutil

import pytest

from component_specs import RunCheckerJob
from component_specs.example_gen import Spans
from component_specs.kfp_outputs import CODE_VERSIONS, KFP_OUTPUTS
from components.publishing.destination import PushDestination
from components.run_checker import code_version as versions
from components.run_checker import placeholders
from components.run_checker.code_version import code_version, component_version, import_closure
from components.run_checker.placeholders import RunValues, check_placeholders, fill_placeholders, format_time
from components.run_checker.run import FILLED, HANDED_ON, earlier_spans, run, span_folder
from detection_core.artifacts.data_statistics import SampleStatistics, keep_spans
from detection_core.artifacts.published import PublishedVersion
from detection_core.errors import ConfigError, DataError
from detection_core.storage import files
from detection_core.storage.files import write_text
from tests.support.cases import cases, refused
from tests.support.dataset_files import Coco

SPLITS = {"train": 1.0}


@pytest.fixture
def job(tmp_path):
    Coco(tmp_path / "data").write()
    places = {"data_path": str(tmp_path / "data"), "push_destination": str(tmp_path / "pushed")}
    return RunCheckerJob(**places, splits=SPLITS)


def test_it_returns_what_its_outputs_promise(job):
    found = run(job)
    assert set(found) == set(KFP_OUTPUTS["run_checker"].results)
    assert found["data_spans"] == Spans() and found["resolved_thresholds"] == {}
    assert found["resolved_data_path"] == job.data_path and found["baseline_version"] == ""
    assert set(HANDED_ON) < set(FILLED)


def test_placeholders_are_filled_before_a_text_is_read(job, tmp_path):
    given = {"work_dir": f"{tmp_path}/[[RunUUID]]", "scheduled_time": "2026-11-21T03:00:00Z", "run_id": "r-1"}
    bound = '{"mAP": {"lower_bound": 0.[[ScheduledTime.02]]}}'
    found = run(dataclasses.replace(job, **given, thresholds=bound))
    assert found["resolved_thresholds"] == {"mAP": {"lower_bound": 0.21}}
    assert found["resolved_work_dir"] == f"{tmp_path}/r-1"
    with pytest.raises(ConfigError, match=r"thresholds: no placeholder \[\[ScheduledTme\]\]; did you mean"):
        run(dataclasses.replace(job, thresholds='{"mAP": {"lower_bound": [[ScheduledTme]]}}'))


def test_equal_requests_have_one_key_and_every_other_request_another(job):
    first = run(job)["run_key"]
    assert run(job)["run_key"] == first

    def key(**changes):
        return run(dataclasses.replace(job, **changes))["run_key"]

    assert key(push_destination=f"{job.push_destination}2", work_dir="/w", run_id="x") == first
    others = {key(train_steps=5), key(learning_rate=0.1), key(thresholds='{"mAP": {}}'), key(request="other")}
    assert len(others | {first}) == 5


def test_a_repeated_run_is_given_the_values_of_the_first(job, tmp_path):
    first = run(job)
    assert run(job)["push_token"] != first["push_token"], "nothing is published yet"
    files.write_text(str(tmp_path / "source" / "saved_model.pb"), "graph")
    version = PublishedVersion(number=0, run_key=first["run_key"], push_token=first["push_token"])
    published = PushDestination(job.push_destination).publish(str(tmp_path / "source"), "", version, 0)
    assert run(job) == first
    other = run(dataclasses.replace(job, train_steps=3))
    assert other["baseline_version"] == str(published.number) and other["push_token"] != first["push_token"]


def test_data_that_are_not_there_stop_the_run(job, tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        run(dataclasses.replace(job, data_path=str(tmp_path / "nowhere")))
    with pytest.raises(ConfigError, match="splits"):
        run(dataclasses.replace(job, splits={"train": 0.5}))


NOW = datetime.datetime.fromisoformat("2026-11-21T05:00:00+01:00")
VALUES = RunValues(scheduled_time="2026-11-21T03:00:00Z", current_time=NOW, run_id="11ef-22")


def test_times_and_the_run_are_filled_in_utc():
    text = "/d/[[ScheduledTime]]/[[CurrentTime]]/[[ScheduledTime.2006-01-02]]/[[RunUUID]]"
    assert fill_placeholders(text, VALUES, "p") == "/d/20261121030000/20261121040000/2026-11-21/11ef-22"
    assert fill_placeholders("/d/{SPAN} [[1, 2]]", VALUES, "p") == "/d/{SPAN} [[1, 2]]"
    for moment in ("2026-11-21T04:00:00+01:00", "2026-11-21T03:00:00.25Z", "2026-11-21T03:00:00"):
        values = dataclasses.replace(VALUES, scheduled_time=moment)
        assert fill_placeholders("[[ScheduledTime]]", values, "p") == "20261121030000"


@cases(("{{$.pipeline_job_schedule_time_utc}}", "{{$.pipeline_job_uuid}}"), ("", ""))
def test_what_a_server_left_as_it_is_or_empty_stops_a_run_that_needs_it_and_no_other(*, time, run):
    values = dataclasses.replace(VALUES, scheduled_time=time, run_id=run)
    assert fill_placeholders("/d/[[CurrentTime.2006]]", values, "p") == "/d/2026"
    told = r"data_path: expected a value for .* from the server, .* 2\.17 or newer"
    for placeholder in ("[[ScheduledTime]]", "[[RunUUID]]"):
        refused(ConfigError, told, fill_placeholders, placeholder, values, "data_path")
    values = dataclasses.replace(VALUES, scheduled_time="soon")
    told = "expected the scheduled time as RFC 3339"
    refused(ConfigError, told, fill_placeholders, "[[ScheduledTime]]", values, "p")


@cases(
    ("[[ScheduleTime]]", r"a: no placeholder \[\[ScheduleTime\]\]; did you mean \[\[ScheduledTime\]\]\?"),
    ("[[Zzz]]", "there are ScheduledTime, CurrentTime, RunUUID"),
    ("[[RunUUID.2006]]", r"no placeholder \[\[RunUUID.2006\]\]"),
    ("x [[Index]]", r"\[\[Index\]\] cannot be filled, as no step is given the number of its run"),
)
def test_what_cannot_be_filled_is_refused(*, value, message):
    assert placeholders.has_placeholder(value) and not placeholders.has_placeholder("[[1]]")
    assert placeholders.asks_for_value(value) == ("Index" in value or "UUID" in value)
    refused(ConfigError, message, check_placeholders, value, "a")


NIGHT = datetime.datetime(2026, 11, 21, 3, 4, 5, tzinfo=datetime.UTC)
NOON = datetime.datetime(2028, 7, 4, 12, 30, 1, tzinfo=datetime.UTC)


# Each pair as Go 1.x itself writes it: time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC).Format(layout).
@cases(
    ("Mon Jan _2 15:04:05 2006", "Sat Nov 21 03:04:05 2026"),
    ("Mon Jan _2 15:04:05 MST 2006", "Sat Nov 21 03:04:05 UTC 2026"),
    ("02 Jan 06 15:04 MST", "21 Nov 26 03:04 UTC"), ("02 Jan 06 15:04 -0700", "21 Nov 26 03:04 +0000"),
    ("Monday, 02-Jan-06 15:04:05 MST", "Saturday, 21-Nov-26 03:04:05 UTC"),
    ("2006-01-02T15:04:05Z07:00", "2026-11-21T03:04:05Z"),
    ("2006-01-02T15:04:05.999999999Z07:00", "2026-11-21T03:04:05Z"), ("3:04PM", "3:04AM"),
    ("Jan _2 15:04:05.000", "Nov 21 03:04:05.000"), ("20060102150405", "20261121030405"),
    ("2006/01/02/15", "2026/11/21/03"), ("year=2006/day=002", "year=2026/day=325"), ("06_1_2", "26_1121"),
    ("Monday_3PM", "Saturday_3AM"), ("Janu Mond _2006", "Janu Mond _2026"), ("", ""),
)  # fmt: skip
def test_a_layout_is_read_as_go_reads_it_in_utc_and_at_noon(*, layout, written):
    assert format_time(NIGHT, layout) == written
    east = NIGHT.astimezone(datetime.timezone(datetime.timedelta(hours=9)))
    assert format_time(east, "2006-01-02 15 -07:00") == "2026-11-21 03 +00:00"
    assert format_time(NOON, "3PM __2 January Monday") == "12PM 186 July Tuesday"


@pytest.fixture
def spanned(tmp_path):
    given = {"splits": SPLITS, "work_dir": str(tmp_path)}
    return RunCheckerJob(data_path="/data/{SPAN}", push_destination="/p", **given)


def _keep(spanned, *spans):
    kept = {span: SampleStatistics(images=int(span[-2:])) for span in spans}
    keep_spans(span_folder(spanned, Spans(train=("1",))), kept)


def test_the_spans_before_those_of_the_run_are_compared_with(spanned):
    assert earlier_spans(spanned, Spans(train=("3",))) == {}
    _keep(spanned, "1", "2", "10", "3", "4")
    assert list(earlier_spans(spanned, Spans(train=("3", "4")))) == ["1", "2"]
    assert list(earlier_spans(spanned, Spans(train=("11",)))) == ["1", "2", "3", "4", "10"]
    for count, spans in ((2, ["4", "10"]), (0, [])):
        few = dataclasses.replace(spanned, compared_spans=count)
        assert list(earlier_spans(few, Spans(train=("11",)))) == spans


def test_dates_are_in_their_order_and_other_names_are_no_spans(spanned, tmp_path):
    _keep(spanned, "2026-11-07", "2026-10-31", "99", "99")
    folder = span_folder(spanned, Spans(train=("1",)))
    (tmp_path / folder / "notes").mkdir()
    assert list(earlier_spans(spanned, Spans(train=("2026-11-21",)))) == ["2026-10-31", "2026-11-07"]


def test_a_repeated_run_finds_what_the_first_found_and_a_changed_past_is_another_one(spanned):
    _keep(spanned, "1")
    before = earlier_spans(spanned, Spans(train=("2",)))
    _keep(spanned, "2")
    assert earlier_spans(spanned, Spans(train=("2",))) == before
    keep_spans(span_folder(spanned, Spans(train=("1",))), {"1": SampleStatistics(images=77)})
    assert earlier_spans(spanned, Spans(train=("2",))) != before


def test_each_data_set_has_a_history_of_its_own(spanned):
    spans = Spans(train=("1",))
    changes = ({}, {"data_path": "/other/{SPAN}"}, {"splits": {"train": 0.5, "eval": 0.5}})
    assert len({span_folder(dataclasses.replace(spanned, **change), spans) for change in changes}) == 3
    homeless = dataclasses.replace(spanned, work_dir="")
    assert span_folder(spanned, Spans()) == span_folder(homeless, spans) == ""


STEPS = tuple(CODE_VERSIONS)
CONFIG_STEPS = ("config_gen", "evaluator", "data_validator")
MODEL_STEPS = ("trainer", "quantization_rewriter", "tflite_exporter")


@pytest.fixture(scope="module")
def closures():
    return {step: import_closure(f"components.{step}.run")[0] for step in STEPS}


@cases(
    ("components.evaluator.run", {"evaluator"}),
    ("component_specs.evaluator", {"evaluator"}),
    ("detection_core.evaluation.curves", {"evaluator"}),
    # Trainings that are validated keep the weights that measure best.
    ("detection_core.evaluation.coco_metrics", {"evaluator", *MODEL_STEPS}),
    ("detection_core.tasks.train", {"trainer"}),
    # ConfigGen and Evaluator read a config, for which the record of SSD is imported by name; DataValidator
    # asks it for anchors.
    ("detection_core.parts.losses", {*MODEL_STEPS, *CONFIG_STEPS}),
    ("detection_core.datasets.formats.coco", {"example_gen"}),
    # Optional capabilities are imported by name.
    ("detection_core.optional.tfdv.feature_anomalies", {"data_validator"}),
    ("detection_core.optional.near_duplicates.perceptual_hash", {"data_validator"}),
    ("detection_core.optional.mlflow.mlflow_run", {"trainer", "quantization_rewriter"}),
    ("components.runtime.kfp.views", set()),
    ("detection_core.errors", set(STEPS)),
    ("detection_core", set(STEPS)),
)
def test_only_the_steps_that_import_a_module_change_with_it(closures, *, module, steps):
    assert {step for step in STEPS if module in closures[step]} == steps


def test_statements_count_but_no_place_comment_docstring_or_layout(tmp_path, tmp_path_factory):
    for package in versions.PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package.__path__[0], tmp_path / package.__name__, ignore=ignored)
    path = tmp_path / "components" / "baseline_resolver" / "run.py"
    path.write_text(f'{path.read_text()}\n\n\n# A remark.\n"""And a text."""\n')
    assert component_version("baseline_resolver", tmp_path) == component_version("baseline_resolver")
    for name, line in (("s3.py", "CHANGED = 1"), ("table.yaml", "changed: 1")):
        changed = tmp_path_factory.mktemp("changed") / "root"
        shutil.copytree(tmp_path, changed)
        with open(changed / "detection_core" / "storage" / name, "a") as file:
            file.write(f"\n{line}\n")
        assert component_version("baseline_resolver", changed) != component_version("baseline_resolver")


def test_an_image_is_named_by_all_that_is_in_it_and_another_tensorflow_is_other_code(monkeypatch):
    assert len(code_version()) == 16 and code_version() not in {component_version(c) for c in STEPS}
    before = component_version("trainer")
    known = importlib.metadata.version
    other = lambda name: "9.9" if name == "tensorflow" else known(name)  # noqa: E731
    monkeypatch.setattr(importlib.metadata, "version", other)
    component_version.cache_clear()
    assert component_version("trainer") != before
    component_version.cache_clear()


def test_a_closure_is_kept_on_disk_until_code_or_packages_change(monkeypatch, tmp_path):
    monkeypatch.setenv("DETFLOW_CACHE", str(tmp_path))
    read = []
    closure = versions.import_closure
    monkeypatch.setattr(versions, "import_closure", lambda *args: read.append(1) or closure(*args))

    def version():
        component_version.cache_clear()
        return component_version("baseline_resolver")

    first = version()
    assert version() == first and len(read) == 1
    (entry,) = (tmp_path / "code").iterdir()
    for damaged in ("{", "[]", '{"code": "0"}'):
        entry.write_text(damaged)
        assert version() == first
    assert len(read) == 4
    monkeypatch.setattr(versions, "_installed", lambda: ["numpy-9.9.dist-info"])
    assert version() == first and len(read) == 5
    monkeypatch.setattr(versions, "_all_source", lambda root: "changed")
    assert version() == first and len(read) == 6
    component_version.cache_clear()


def test_a_package_counts_where_it_is_imported():
    trainer, evaluator = (import_closure(f"components.{c}.run")[1] for c in ("trainer", "evaluator"))
    trained_with, evaluated_with = versions.package_versions(trainer), versions.package_versions(evaluator)
    assert {"tensorflow", "tf_keras", "numpy", "protobuf"} <= set(trained_with)
    ingested_with = versions.package_versions(import_closure("components.example_gen.run")[1])
    assert "ai-edge-litert" in evaluated_with and "ai-edge-litert" not in ingested_with
    assert "apache-beam" in ingested_with and "apache-beam" not in trained_with
    # A name that several packages share is told apart; the standard library and what is not installed is not.
    found = versions.package_versions(["google.protobuf", "json", "there_is_no_such_module"])
    assert found == {"protobuf": importlib.metadata.version("protobuf")}


def test_imports_in_functions_count_those_for_types_do_not(tmp_path):
    run = """from typing import TYPE_CHECKING
from component_specs import Job
if TYPE_CHECKING:
    from detection_core import typed
    import pandas
else:
    import scipy
def run(job):
    from detection_core import deep
    import tensorflow as tf
"""
    exports = "from component_specs.some import Job\nfrom component_specs.other import X\n"
    written = {f"{name}/__init__": "" for name in ("detection_core", "components", "components/some")}
    written |= {"component_specs/__init__": exports, "component_specs/some": "class Job: pass\n"}
    written |= {"component_specs/other": "X = 1\n", "detection_core/deep": "import numpy.linalg\n"}
    for name, text in {**written, "detection_core/typed": "", "components/some/run": run}.items():
        write_text(str(tmp_path / f"{name}.py"), text)
    own, foreign = import_closure("components.some.run", tmp_path)
    packages = {"component_specs", "components", "components.some", "detection_core"}
    assert own == packages | {"component_specs.some", "components.some.run", "detection_core.deep"}
    assert foreign == {"typing", "scipy", "numpy.linalg", "tensorflow"}
