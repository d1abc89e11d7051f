from typing import cast

from google.protobuf.descriptor import Descriptor
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.config.text import text_edits
from detection_core.config.text.text_edits import edited, insertion, written_values
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import cases

ROOT = cast(Descriptor, TrainEvalPipelineConfig.DESCRIPTOR)
TEXT = """train_config: {  # of our own
  batch_size: 8, num_steps: 9
  fine_tune_checkpoint:  # below
    "a/" 'b'
  freeze_variables: ['x', "y"]
  freeze_variables: 'z'
}
"""


def test_every_value_is_found_with_its_line_and_replaced_in_its_quotes():
    values = {value.path: value for value in written_values(TEXT, ROOT)}
    assert {path: (value.line, value.text) for path, value in values.items()} == {
        "train_config.batch_size": (2, "8"),
        "train_config.num_steps": (2, "9"),
        "train_config.fine_tune_checkpoint": (3, "\"a/\" 'b'"),
        "train_config.freeze_variables[0]": (5, "'x'"),
        "train_config.freeze_variables[1]": (5, '"y"'),
        "train_config.freeze_variables[2]": (6, "'z'"),
    }
    new = {"train_config.fine_tune_checkpoint": "c", "train_config.freeze_variables[1]": "why"}
    edits = [text_edits.replacement(values[path], text) for path, text in new.items()]
    assert edited(TEXT, edits) == TEXT.replace("\"a/\" 'b'", '"c"').replace('"y"', '"why"')


@cases(
    ("a {\n  batch_size: 8\n  b: 1\n}", "a {\n  b: 1\n}"),
    ("a {\r\n\tbatch_size: 8,\t\r\n\tb: 1\r\n}", "a {\r\n\tb: 1\r\n}"),
    ("a { batch_size: 8; b: 1 }", "a {  b: 1 }"),
    ("a {\n  batch_size: 8  # why\n}", "a {\n  # why\n}"),
    ("a {\n  batch_size:\n    8\n}", "a {\n}"),
    ("batch_size: 8", ""),
)
def test_a_field_goes_with_its_line_where_nothing_else_stands_there(*, before, after):
    (value,) = [v for v in written_values(before, ROOT) if v.text == "8"]
    edit = text_edits.removal(before, value)
    assert edited(before, [edit]) == after
    blank = text_edits.blanked(before, [edit])
    assert "batch_size" not in blank and len(blank) == len(before)
    assert [len(row) for row in blank.split("\n")] == [len(row) for row in before.split("\n")]


@settings(max_examples=120, deadline=None)
@given(st.text(alphabet="{}<>[]:;,\"'\\#ab1.\n -", max_size=60))
def test_what_is_found_in_any_text_stands_there(text):
    for value in written_values(text, ROOT):
        assert text[value.start : value.end] == value.text


def test_a_field_is_put_at_the_beginning_of_a_message():
    text = "a: 1\ntrain_config: <\n  batch_size: 3 >"
    edit = insertion(text, ROOT, "train_config", "num_steps: 2")
    assert edited(text, [edit]) == "a: 1\ntrain_config: < num_steps: 2\n  batch_size: 3 >"
    assert insertion(text, ROOT, "eval_config", "x: 1") is None
