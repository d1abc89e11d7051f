"""Parts from outside the package are checked as the package's own, and built with their options."""

import pytest

from detection_core.config.messages import registered
from detection_core.config.messages.registered import Option, build_registered, register_part, unregister_part
from detection_core.config.problems import Problem
from detection_core.config.rules import POSITIVE
from detection_core.protos.losses_pb2 import ClassificationLoss
from detection_core.protos.registered_pb2 import RegisteredPart
from tests.support.cases import cases, refused
from tests.support.configs import PYRAMID, assert_fine, assert_problems, find_in, parsed

KIND = "classification_loss"
LOSS = "model.ssd.loss.classification_loss"
OPTIONS = {"epsilon": Option(1.0, POSITIVE), "steps": Option(3), "hard": Option(False), "mode": Option("sum")}


def _check(message, path):
    if message.options["mode"] == "both":
        yield Problem(path=f"{path}.options[mode]", message="expected sum or mean, found 'both'; correct it")


@pytest.fixture(autouse=True)
def poly():
    register_part(KIND, "poly", lambda **values: values, options=OPTIONS, check=_check)
    yield
    unregister_part(KIND, "poly")


def _option(name, value):
    return f'name: "poly" options {{ key: "{name}" value: "{value}" }}'


def test_options_have_the_type_of_their_defaults_and_a_name_is_given_once():
    text = f'{_option("epsilon", "2.5")} options {{ key: "hard" value: "true" }}'
    message = parsed(RegisteredPart, text)
    assert build_registered(KIND, message) == {"epsilon": 2.5, "steps": 3, "hard": True, "mode": "sum"}
    refused(ValueError, "'poly', which is registered", register_part, KIND, "poly", dict)
    register_part("augmentation", "poly", dict)
    unregister_part("augmentation", "poly")
    assert ("augmentation", "poly") not in registered._PARTS


@cases(
    ('name: "polly"', "registered.name", "did you mean poly?"),
    ("", "registered.name", "expected a registered classification_loss, found ''; use one of poly"),
    (_option("epsilon", "0"), "registered.options[epsilon]", "expected a number above 0, found 0"),
    (_option("epsilon", "x"), "registered.options[epsilon]", "expected a number, found 'x'"),
    (_option("steps", "1.5"), "registered.options[steps]", "expected a whole number, found '1.5'"),
    (_option("hard", "yes"), "registered.options[hard]", "expected true or false, found 'yes'"),
    (_option("gamma", "1"), "registered.options[gamma]", "which has epsilon, steps, hard, mode"),
    (_option("mode", "both"), "registered.options[mode]", "expected sum or mean"),
    (_option("epsilon", "nan"), "registered.options[epsilon]", "expected a number above 0, found nan"),
)
def test_what_does_not_fit_is_named(*, text, path, words):
    (problem,) = find_in(parsed(ClassificationLoss, f"registered {{ {text} }}"), "loss")
    assert problem.path == f"loss.{path}" and words in problem.message


def test_the_check_of_a_config_knows_the_part_and_its_kind():
    part, path = {"registered": {"name": "poly"}}, "train_config.data_augmentation_options[0]"
    assert_problems(PYRAMID, {path: part}, {f"{path}.registered.name"})
    assert_fine(PYRAMID, {LOSS: part})
    unregister_part(KIND, "poly")
    assert_problems(PYRAMID, {LOSS: part}, {f"{LOSS}.registered.name"})
