import copy
import json

from component_specs import JOBS
from component_specs.interface import find_mismatch, format_interface, interface
from tests.support.cases import cases


def _changed(kind, name, value):
    theirs = copy.deepcopy(interface("evaluator"))
    if value is None:
        del theirs[kind][name]
    else:
        theirs[kind][name] = value
    return theirs


@cases(*JOBS)
def test_a_component_fits_itself(*, component):
    assert find_mismatch(json.loads(format_interface(component)), component) == ""
    assert "{{" not in format_interface(component)


@cases(("parameters", "pictures"), ("inputs", "baseline"), ("views", "report"))
def test_an_older_yaml_may_lack_what_is_optional(*, kind, name):
    assert find_mismatch(_changed(kind, name, None), "evaluator") == ""


@cases(
    ("inputs", "model", None, "input model is known here only"),
    ("outputs", "blessing", None, "output blessing is known here only"),
    ("parameters", "speed", "int?", "parameter speed is known there only"),
    ("outputs", "heat_map", "Heat", "output heat_map is known there only"),
    ("inputs", "baseline", "Examples?", "input baseline is Examples? there and Model? here"),
    ("parameters", "pictures", "str?", r"parameter pictures is str? there and int? here"),
)
def test_what_cannot_meet_is_named(*, kind, name, value, message):
    assert find_mismatch(_changed(kind, name, value), "evaluator") == message


def test_another_component_is_told():
    assert find_mismatch(interface("pusher"), "evaluator") == "it is for the component 'pusher'"
