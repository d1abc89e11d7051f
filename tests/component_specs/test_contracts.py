"""What every contract carries: its parameters as texts and numbers.

Inputs, outputs, roles and defaults are in the YAML, which `test_kfp_yaml.py` compares whole.
"""

import dataclasses
import importlib

import yaml

from component_specs import JOBS
from component_specs.annotations import encode_parameters, job_fields
from component_specs.data_validator import CHECKS
from component_specs.evaluator import THRESHOLDS
from component_specs.example_gen import DEFAULT_SPLITS, SPANS, SPLITS, Spans, span_order
from component_specs.kfp_yaml import DESCRIPTIONS, describe_fields
from tests.support.cases import cases, refused


def job(component, **given):
    """Return a Job that has placeholders for whatever else it requires."""
    fields = job_fields(JOBS[component])
    required = {name: "x" for name, p in fields.parameters.items() if p.required}
    paths = {name: f"/{name}" for name in (*fields.inputs, *fields.outputs)}
    return JOBS[component](**{**paths, **required, **given})


def carried(component, **given):
    return encode_parameters(job(component, **given))


@cases(*JOBS)
def test_every_job_is_frozen_and_documents_each_field_and_its_defaults_travel(*, component):
    job, fields = JOBS[component], job_fields(JOBS[component])
    assert job is getattr(importlib.import_module(f"component_specs.{component}"), job.__name__)
    assert job.__dataclass_params__.frozen
    # Every field has a description, and the table has no others.
    described, names = describe_fields(component), [field.name for field in dataclasses.fields(job)]
    assert list(described) == names and all(described.values())
    table = yaml.safe_load(DESCRIPTIONS.read_text())
    assert table[component].keys() <= set(names) and list(table) == ["common", *JOBS]
    for parameter in fields.parameters.values():
        codec = parameter.codec
        if not parameter.required:
            carried = codec.encode(parameter.default)
            assert type(carried) is codec.carried_as and codec.decode(carried) == parameter.default
        if example := getattr(codec, "example", ""):
            assert codec.encode(codec.decode(example))
    # A job that makes something has the version of its code.
    assert component == "run_checker" or (fields.outputs and fields.parameters["code_version"].default == "")


def test_the_parameters_of_a_job_travel_by_name_and_default_splits_belong_to_nobody():
    found = carried("example_gen", splits={"train": 0.8, "eval": 0.2}, beam_args=("--x",))
    assert found["splits"] == '{"eval": 0.2, "train": 0.8}' and found["beam_args"] == '["--x"]'
    assert found["spans"] == "" and found["shard_examples"] == 1000 and "examples" not in found
    job("example_gen").splits["more"] = 1
    found = {carried(component)["splits"] for component in ("example_gen", "run_checker")}
    assert found == {SPLITS.encode(DEFAULT_SPLITS)}


# Equal values are one text; overrides keep the order in which they are applied.
@cases(
    ("config_gen", "text", "model { ssd {} }", "model { ssd {} }"),
    ("data_validator", "checks", {"b": {"threshold": 0.1}, "a": {}}, '{"a": {}, "b": {"threshold": 0.1}}'),
    ("evaluator", "thresholds", {"b": {"lower_bound": 1}, "a": {}}, '{"a": {}, "b": {"lower_bound": 1}}'),
    ("example_gen", "splits", {"b": {"images": "i"}, "a": "e"}, '{"a": "e", "b": {"images": "i"}}'),
    # Thresholds of RunChecker may hold placeholders anywhere and are a text still.
    ("run_checker", "thresholds", '{"mAP": [[ScheduledTime.02]]}', '{"mAP": [[ScheduledTime.02]]}'),
    ("run_checker", "splits", {"train": "a.json"}, '{"train": "a.json"}'),
    ("tflite_exporter", "formats", ("float32", "int8"), "float32,int8"),
    ("trainer", "overrides", {"b": 1, "a": None}, '{"b": 1, "a": null}'),
    ("trainer", "overrides", {"a": None, "b": 1}, '{"a": null, "b": 1}'),
    ("quantization_rewriter", "overrides", {"g": "{}", "b": 2}, '{"g": "{}", "b": 2}'),
    ("trainer", "learning_rate", 1, 1.0),
    ("pusher", "keep_versions", 0, 0),
    ("baseline_resolver", "baseline_version", "3", "3"),
)
def test_a_value_is_one_text_from_which_it_comes_back(*, component, field, value, text):
    assert carried(component, **{field: value})[field] == text
    decoded = job_fields(JOBS[component]).parameters[field].codec.decode(text)
    assert decoded == value and (field != "overrides" or list(decoded) == list(value))


@cases(
    (CHECKS, '{"leakage": "stop"}', "severity"),
    *((THRESHOLDS, text, "lower_bound") for text in ("[]", '{"mAP": 0.3}', '{"mAP": [0.3]}')),
)
def test_what_is_no_map_of_maps_is_refused(*, codec, text, message):
    refused(ValueError, message, codec.decode, text)


def test_spans_of_the_two_kinds_of_splits():
    spans = Spans(train=("1", "2", "3"), evaluate=("3",))
    assert spans.of("train") == spans.all() == ("1", "2", "3")
    assert spans.of("eval") == spans.of("anything") == ("3",)
    assert Spans(evaluate=("4",)).all() == ("4",) and not Spans().all()
    assert SPANS.decode(SPANS.encode(spans)) == spans
    # Packages compiled by older versions hold this text.
    assert SPANS.encode(Spans(train=("1",))) == '{"train": ["1"], "evaluate": []}'
    assert span_order("7") == (8, "") and span_order("9" * 5000) == span_order("²") == (0, "")
