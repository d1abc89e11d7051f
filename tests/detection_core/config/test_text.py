"""Texts of configs: their positions, comments and edits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.config.load import format_commented_config, load_pipeline_config, parse_pipeline_config
from detection_core.config.text import source_text
from detection_core.config.text.source_text import (
    comment_lines,
    edited,
    field_lines,
    insertion,
    nearest_line,
    scan,
    token_at,
    written_values,
)
from detection_core.config.text.text_proto import format_message, parse_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import cases, refused
from tests.support.configs import PATHS, PYRAMID
from tests.support.random_messages import is_map, messages


def test_a_comment_stands_above_its_field_and_changes_nothing():
    config = load_pipeline_config(PYRAMID)
    comments = {
        "model.ssd.num_classes": "as many as there are",
        "train_config.data_augmentation_options": "all of them",
        "train_config.fine_tune_checkpoint": "not there",
    }
    text = format_commented_config(config, comments)
    assert parse_pipeline_config(text) == config
    assert "\n    # as many as there are\n    num_classes: 5\n" in text
    assert "\n  # all of them\n  data_augmentation_options {\n" in text and text.count("# all of them") == 1
    assert "\n# not there\ntrain_config {\n" in text
    # Whatever is in a comment stays one.
    hostile = 'a\nmodel { } \r\u2028}\0 "x' + " word" * 60
    lines = comment_lines(hostile, "    ", width=80)
    assert len(lines) > 3
    assert all(line.startswith("    # ") and len(line) <= 80 for line in lines)
    assert not any(set(line) & set("\n\r\u2028\0") for line in lines)
    assert parse_pipeline_config(format_commented_config(config, {"model.ssd": hostile})) == config
    assert comment_lines("") == ["#"]


ROOT = TrainEvalPipelineConfig.DESCRIPTOR

TEXT = """# a { comment: "with" braces }
model { ssd < num_classes: 3; > }
train_config {
  data_augmentation_options: [
    { random_crop_image { min_area: .5, max_area: 1 } },
    {
      rgb_to_gray {} }
  ]
  data_augmentation_options { }
  fine_tune_checkpoint: "a" 'b } c'
  freeze_variables: ['x',
    'y']
  batch_size: 4
}
"""


def test_lines_of_every_form_are_known_and_tokens_know_their_fields():
    step = "train_config.data_augmentation_options"
    crop = f"{step}[0].random_crop_image"
    assert field_lines(TEXT, ROOT) == {
        "model": 2, "model.ssd": 2, "model.ssd.num_classes": 2, "train_config": 3,
        f"{step}[0]": 4, crop: 5, f"{crop}.min_area": 5, f"{crop}.max_area": 5,
        f"{step}[1].rgb_to_gray": 7, f"{step}[2]": 9, "train_config.fine_tune_checkpoint": 10,
        "train_config.freeze_variables[0]": 11, "train_config.batch_size": 13,
    }  # fmt: skip
    token = token_at(TEXT, ROOT, 12, 5)
    assert token is not None
    assert (token.text, token.path, token.is_name) == ("'y'", "train_config.freeze_variables[1]", False)
    assert token_at(TEXT, ROOT, 1, 1) is None
    tokens = [token for token in scan("model { sdd { deep: 1 } }", ROOT) if token.is_name]
    assert [token.path for token in tokens] == ["model", "model.sdd", "model.sdd.deep"]
    assert tokens[2].container is None
    assert [t.path for t in scan("[our.extension] { a: 1 }", ROOT) if t.is_name] == ["[our.extension].a"]
    lines = {"model": 2, "model.ssd": 3}
    assert nearest_line("model.ssd.loss.x", lines) == 3
    assert nearest_line("train_config.x", lines) == 0


def field_names(message, path=""):
    """Path of every field outside maps, with the name that its line must begin with."""
    names = {}
    for field, value in message.ListFields():
        if is_map(field):
            continue
        elements = value if field.is_repeated else [value]
        for i, element in enumerate(elements):
            inner = f"{path}.{field.name}".lstrip(".") + (f"[{i}]" if field.is_repeated else "")
            names[inner] = field.name
            if field.message_type is not None:
                names |= field_names(element, inner)
    return names


@settings(max_examples=60, deadline=None)
@given(messages(ROOT))
def test_any_message_comes_back_from_its_text_and_every_field_is_on_its_line(message):
    text = format_message(message)
    assert parse_message(text, TrainEvalPipelineConfig) == message
    rows, lines = text.split("\n"), field_lines(text, ROOT)
    for path, name in field_names(message).items():
        assert rows[lines[path] - 1].strip().startswith(name), path


VALUES = """train_config: {  # of our own
  batch_size: 8, num_steps: 9
  fine_tune_checkpoint:  # below
    "a/" 'b'
  freeze_variables: ['x', "y"]
  freeze_variables: 'z'
}
"""


def test_a_value_is_found_with_its_line_and_replaced_in_its_quotes_and_a_field_put_at_the_beginning():
    values = {value.path: value for value in written_values(VALUES, ROOT)}
    texts = {"batch_size": (2, "8"), "num_steps": (2, "9"), "fine_tune_checkpoint": (3, "\"a/\" 'b'")}
    texts |= {f"freeze_variables[{i}]": text for i, text in enumerate(((5, "'x'"), (5, '"y"'), (6, "'z'")))}
    expected = {f"train_config.{path}": text for path, text in texts.items()}
    assert {path: (value.line, value.text) for path, value in values.items()} == expected
    new = {"train_config.fine_tune_checkpoint": "c", "train_config.freeze_variables[1]": "why"}
    edits = [source_text.replacement(values[path], text) for path, text in new.items()]
    assert edited(VALUES, edits) == VALUES.replace("\"a/\" 'b'", '"c"').replace('"y"', '"why"')
    text = "a: 1\ntrain_config: <\n  batch_size: 3 >"
    edit = insertion(text, ROOT, "train_config", "num_steps: 2")
    assert edited(text, [edit]) == "a: 1\ntrain_config: < num_steps: 2\n  batch_size: 3 >"
    assert insertion(text, ROOT, "eval_config", "x: 1") is None


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
    edit = source_text.removal(before, value)
    assert edited(before, [edit]) == after
    blank = source_text.blanked(before, [edit])
    assert "batch_size" not in blank and len(blank) == len(before)
    assert [len(row) for row in blank.split("\n")] == [len(row) for row in before.split("\n")]


@settings(max_examples=120, deadline=None)
@given(st.text(alphabet="{}<>[]:;,\"'\\#ab1.\n -", max_size=60))
def test_what_is_found_in_any_text_stands_there(text):
    for token in scan(text, ROOT):
        assert text.split("\n")[token.line - 1][token.column - 1 :].startswith(token.text)
    for value in written_values(text, ROOT):
        assert text[value.start : value.end] == value.text


def parse(text):
    return parse_message(text, TrainEvalPipelineConfig, where="my.config")


# What stands in a train_config, and what its message must have behind `train_config.`
IN_TRAIN_CONFIG = {
    "batch_size: -1": "batch_size: .* from 0 to 4294967295, found -1",
    "batch_size: 1.5": "batch_size: .*whole number.* found 1.5",
    "batch_size { }": "batch_size: expected a whole number",
    "fine_tune_checkpoint_version: V9": "fine_tune_checkpoint_version: .*one of UNKNOWN, V1, V2, found V9",
    "fine_tune_checkpoint_version: 9": "fine_tune_checkpoint_version: .*one of UNKNOWN, V1, V2, found 9",
    "sync_replicas: maybe": "sync_replicas: expected true or false, found maybe",
    "startup_delay_steps: 'a'": "startup_delay_steps: expected a number, found 'a'",
    "fine_tune_checkpoint: model.ckpt": "fine_tune_checkpoint: expected a text in quotes, found model.ckpt",
    r"fine_tune_checkpoint: 'C:\Users\me'": r"fine_tune_checkpoint: .*found 'C:.*write / or \\\\ instead",
    r"fine_tune_checkpoint: 'C:\me\'": "fine_tune_checkpoint",
}
STEPS = "data_augmentation_options"
TWO = f"train_config {{\n {STEPS} {{}}\n {STEPS} {{ random_crop_image {{ min_aera: 1 }} }} }}"
LISTED = f"train_config {{ {STEPS}: [{{ rgb_to_gray {{}} }},\n {{ random_crop_imag {{}} }}] }}"
AT = rf"train_config\.{STEPS}\[1\]\.random_crop"
# Text, line of the error, and what its message must have.
WRONG = [
    *((f"train_config {{ {text} }}", 1, f"train_config.{found}") for text, found in IN_TRAIN_CONFIG.items()),
    ("\nmodel {\n ssd {\n num_clases: 3 } }", 4, "model.ssd.num_clases: .*did you mean num_classes"),
    ("num_classes: 3", 1, "is a field of CenterNet, EfficientDet, Exper.*, FasterRcnn.*It has: eval_config"),
    ("train_config {\n batch_size: 'x' }", 2, "batch_size: expected a whole number from 0.*'x'"),
    ("model { ssd { num_classes: 3000000000 } }", 1, "to 2147483647, found 3000000000"),
    ("train_input_reader { mask_type: PNG_MASK }", 1, "found PNG_MASK; did you mean PNG_MASKS"),
    ("train_config { batch_size: 1\n batch_size: 2 }", 2, "'batch_size' is given twice"),
    ("model { ssd {}\n faster_rcnn {} }", 2, "'faster_rcnn' and 'ssd' exclude each other"),
    ("model: 3", 1, "model: expected a message {...} of DetectionModel: center_net, efficientdet"),
    ("train_config { batch_size: 3", 1, "check braces, quotes and colons"),
    ("train_config { } }", 1, "near '}'"),
    ('eval_config { metrics_set: "abc }', 1, r"eval_config.metrics_set\[0\].*quote"),
    ("[our.extension] { }", 1, "no extension of this name is known"),
    (TWO, 3, rf"{AT}_image.min_aera: .*did you mean min_area"),
    (LISTED, 2, rf"{AT}_imag: .*random_crop_image"),
]


@cases(*WRONG)
def test_an_error_names_line_field_and_remedy(*, text, line, message):
    assert refused(ConfigError, message, parse, text).where == f"my.config:{line}"


def test_text_whose_escapes_are_not_utf_8_is_refused():
    text = r'model { ssd { feature_extractor { type: "\377" } } }'
    with pytest.raises(ConfigError, match=r"here.config.*(not a valid|expected)"):
        parse_message(text, TrainEvalPipelineConfig, where="here.config")


def test_text_from_no_file_is_named_by_its_line():
    refused(ConfigError, r"^line 2: model\.sdd", parse_message, "model {\n sdd {} }", TrainEvalPipelineConfig)
    refused(ConfigError, "metrics_set", parse, r"eval_config { metrics_set: '\xff' }")


PIECES = ["", "{", "}", "[", "]", ":", "'", '"', "#", "-1", "nan", "x", "\n", ",", "é"]


@st.composite
def broken_configs(draw):
    """A config with a few pieces cut out, put in or doubled."""
    with open(draw(st.sampled_from(PATHS)), encoding="utf-8") as f:
        text = f.read()
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from(PIECES))
        text = text[:start] + draw(st.sampled_from([piece, text[start:end] * 2])) + text[end:]
    return text


@settings(max_examples=120, deadline=None)
@given(broken_configs())
def test_broken_text_gives_a_message_or_one_error_with_its_line(text):
    try:
        parse(text)
    except ConfigError as error:
        line = int(error.where.removeprefix("my.config:"))
        assert 1 <= line <= text.count("\n") + 1
        assert error.message
