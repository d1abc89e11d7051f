import ast

from detection_core.config.automl import value_readers as readers
from detection_core.config.rules import FRACTION, up_to
from tests.detection_core.config.automl.facts import load_facts
from tests.support.cases import cases, config_refused


@cases(*load_facts("hparams")["parse_image_size"])
def test_image_sizes_are_read_as_theirs_are(*, case):
    value = ast.literal_eval(case["value"])
    if "raises" in case:
        config_refused("^x: expected a side in pixels", readers.image_size, value, "x")
    else:
        assert readers.image_size(value, "x") == tuple(case["result"])


@cases(
    (readers.number(FRACTION), "5e-1", 0.5),  # YAML takes 5e-1 for a text
    (readers.whole(up_to(9)), 3.0, 3),
    (readers.switch, 1, True),
    (readers.switch, None, False),
    (readers.channels, 127, (127.0, 127.0, 127.0)),
    (readers.channels, [1, 2, 3.5], (1.0, 2.0, 3.5)),
    (readers.aspect_ratios, [1, [1.4, 0.7]], (1.0, (1.4, 0.7))),
    (readers.anchor_scale, [4, 5], (4.0, 5.0)),
    (readers.names_of("a", "b"), "a", ("a",)),
    (readers.names_of("a", "b"), ["b", ""], ("b",)),
    (readers.label_map, {"2": "dog", 1: "cat"}, {2: "dog", 1: "cat"}),
    (readers.optional(readers.text), "", None),
    (readers.choice("sgd", any_case=True), "SGD", "sgd"),
    (readers.epoch_or_whole(up_to(9)), "epoch", "epoch"),
)
def test_what_was_meant_is_taken(*, read, value, expected):
    assert read(value, "x") == expected


@cases(
    (readers.number(FRACTION), [2, "", 16], r"write the number itself, 65536 for 2\*\*16"),
    (readers.number(FRACTION), True, "expected a number from 0 to 1, found True"),
    (readers.number(FRACTION), float("nan"), "found nan"),
    (readers.number(FRACTION), 10**400, "expected a number from 0 to 1"),
    (readers.whole(up_to(9)), 2.5, "expected a whole number"),
    (readers.switch, "yes", "expected true or false, found 'yes'"),
    (readers.expression, ["(efficientnet.", ")"], "write this value in a YAML file"),
    (readers.expression, "(", "expected a regular expression"),
    (readers.choice("relu", "swish"), " relu", r"found ' relu'; did you mean relu\?"),
    (readers.channels, [1, 2], "a number, or three"),
    (readers.divisors, 0, "numbers above 0"),
    (readers.aspect_ratios, [[1, 2, 3]], r"x\[0\]: expected a pair"),
    (readers.aspect_ratios, [], "at least one ratio"),
    (readers.names_of("a", "b"), [""], "one or more of a, b"),
    (readers.names_of("a", "b"), ["a", "a"], "one or more of a, b"),
    (readers.label_map, {"person": 1}, "expected a class id"),
    (readers.label_map, {1: 2}, r"x\[1\]: expected a text, found 2"),
    (readers.label_map, [1], "expected a table of class id: name"),
    (readers.image_size, True, "expected a side in pixels"),
    (readers.image_size, 0, "expected a number of pixels"),
    (readers.table, 1, "expected a table, found 1"),
)
def test_what_cannot_be_meant_is_refused(*, read, value, message):
    config_refused(message, read, value, "x")
