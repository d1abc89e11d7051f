"""Which variables the patterns leave to train."""

import pytest
import tensorflow as tf

from detection_core.errors import ConfigError
from detection_core.training.loop_options import TrainOptions
from detection_core.training.variables import trained_variables
from tests.support.cases import cases

NAMES = ["backbone/conv/kernel", "backbone/bn/gamma", "head/kernel", "head/bias"]
VARIABLES = [tf.Variable(0.0, name=name) for name in NAMES]


def chosen(update=(), freeze=()):
    options = TrainOptions(num_steps=1, update_trainable_variables=update, freeze_variables=freeze)
    return [v.name.split(":")[0] for v in trained_variables(VARIABLES, options)]


def test_patterns_are_found_anywhere_in_a_name():
    assert chosen() == NAMES
    assert chosen(freeze=("backbone/",)) == NAMES[2:]
    assert chosen(update=("backbone/conv", "head")) == [NAMES[0], *NAMES[2:]]
    assert chosen(update=("head",), freeze=(".*bias$",)) == ["head/kernel"]
    assert chosen(freeze=("/bn/", "bias")) == ["backbone/conv/kernel", "head/kernel"]
    assert chosen(update=("gamma",)) == ["backbone/bn/gamma"]
    assert chosen(freeze=("^head",)) == NAMES[:2]


@cases(
    ((), ("Other",), r"freeze_variables: pattern 'Other' matches none of .* 4 .*backbone/conv/kernel"),
    (("nothing",), (), "update_trainable_variables: pattern 'nothing' matches none"),
    ((), ("(",), "expected a regular expression"),
    ((), ("head", "back"), "leave none of 4"),
)
def test_patterns_that_cannot_be_meant_are_refused(*, update, freeze, text):
    with pytest.raises(ConfigError, match=text):
        chosen(update, freeze)
