import pytest

from component_specs import JOBS
from component_specs.annotations import job_fields
from component_specs.example_gen import Spans
from component_specs.kfp_outputs import CODE_VERSIONS, CURVES, HTML, KFP_OUTPUTS, encode_results


def test_every_component_has_its_outputs_and_every_step_that_makes_something_its_code_version():
    assert set(KFP_OUTPUTS) == set(JOBS)
    assert set(CODE_VERSIONS) == {name for name, job in JOBS.items() if job_fields(job).outputs}
    assert set(CODE_VERSIONS.values()) <= set(KFP_OUTPUTS["run_checker"].results)
    kinds = {name: view.kfp for name, view in KFP_OUTPUTS["evaluator"].views.items()}
    assert kinds["curves"] == CURVES and kinds["report"] == HTML


def test_results_travel_as_the_parameters_that_take_them():
    codecs = KFP_OUTPUTS["run_checker"].results
    for result, (component, field) in {
        "data_spans": ("example_gen", "spans"),
        "span_folder": ("data_validator", "span_folder"),
        "earlier_spans": ("data_validator", "earlier_spans"),
        "resolved_thresholds": ("evaluator", "thresholds"),
        "resolved_data_path": ("example_gen", "data_path"),
        "baseline_version": ("pusher", "baseline_version"),
    }.items():
        assert codecs[result] == job_fields(JOBS[component]).parameters[field].codec


def test_what_run_returned_is_encoded_by_name():
    assert encode_results("pusher", {"pushed": True, "version": 3}) == {"pushed": True}
    report = {**dict.fromkeys(KFP_OUTPUTS["run_checker"].results, "x"), "data_spans": Spans(train=("1",))}
    report["earlier_spans"] = {"6": "d"}
    report["resolved_thresholds"] = {"b": {}, "a": {}}
    texts = encode_results("run_checker", report)
    assert texts["data_spans"] == '{"train": ["1"], "evaluate": []}'
    assert texts["resolved_thresholds"] == '{"a": {}, "b": {}}' and texts["run_key"] == "x"
    with pytest.raises(KeyError, match="blessed"):
        encode_results("evaluator", {})
