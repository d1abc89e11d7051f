from detection_core.errors import ConfigError
from pipeline.parameters import Parameter, check_parameters, parse_parameters
from tests.support.refusals import not_refused

_KINDS = {"data_path": "STRING", "train_steps": "NUMBER_INTEGER", "learning_rate": "NUMBER_DOUBLE"}
_KINDS |= {"fast": "BOOLEAN", "tags": "LIST", "extra": "STRUCT"}
DECLARED = {n: Parameter(name=n, type=kind, required=n == "data_path") for n, kind in _KINDS.items()}


def test_texts_become_typed_values_or_are_refused():
    given = ["data_path=1", "train_steps=5", "learning_rate=1e-3", "fast=true", "tags=[1]", 'extra={"a": 1}']
    values = {"data_path": "1", "train_steps": 5, "learning_rate": 0.001, "fast": True, "tags": [1]}
    assert parse_parameters(DECLARED, given) == {**values, "extra": {"a": 1}}
    texts = [
        ("train_stepz=5", "no parameter train_stepz; did you mean train_steps?"),
        ("nothing_like_it=5", "no parameter nothing_like_it; the pipeline has .*data_path"),
        ("train_steps=5.5", "--param train_steps: expected a whole number, found '5.5'"),
        ("train_steps=true", "expected a whole number"),
        ("learning_rate=NaN", "expected a number, found 'NaN'"),
        ("fast=yes", "expected true or false"),
        ("tags={}", "expected a list, as JSON"),
        ("train_steps", "expected NAME=VALUE"),
    ]
    assert not not_refused(lambda text: parse_parameters(DECLARED, [text]), texts, ConfigError)
    assert check_parameters(DECLARED, {"data_path": "x", "learning_rate": 1}, "s.yaml")
    wrong = {"data_path": "x", "train_steps": "5"}
    values = [
        ((DECLARED, wrong), "s.yaml: train_steps: expected a whole number, found '5'"),
        ((DECLARED, {}), r"no value for data_path.*give --param data_path=VALUE"),
        (({}, {"x": 1}), "no parameter x; the pipeline has none"),
    ]
    assert not not_refused(lambda given: check_parameters(*given, "s.yaml"), values, ConfigError)
