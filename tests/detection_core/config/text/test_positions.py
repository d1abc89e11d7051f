from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.config.text.positions import field_lines, nearest_line, scan, token_at
from detection_core.config.text.text_proto import format_message
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.random_messages import is_map, messages

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


def test_lines_of_every_form():
    step = "train_config.data_augmentation_options"
    crop = f"{step}[0].random_crop_image"
    assert field_lines(TEXT, ROOT) == {
        "model": 2, "model.ssd": 2, "model.ssd.num_classes": 2, "train_config": 3,
        f"{step}[0]": 4, crop: 5, f"{crop}.min_area": 5, f"{crop}.max_area": 5,
        f"{step}[1].rgb_to_gray": 7, f"{step}[2]": 9, "train_config.fine_tune_checkpoint": 10,
        "train_config.freeze_variables[0]": 11, "train_config.batch_size": 13,
    }  # fmt: skip


def test_tokens_know_their_fields_and_fields_their_lines():
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
def test_every_field_of_any_message_is_on_its_line(message):
    text = format_message(message)
    rows, lines = text.split("\n"), field_lines(text, ROOT)
    for path, name in field_names(message).items():
        assert rows[lines[path] - 1].strip().startswith(name), path


@settings(max_examples=120, deadline=None)
@given(st.text(alphabet="{}<>[]:;,\"'\\#ab1.\n -", max_size=60))
def test_any_text_is_scanned_to_its_end(text):
    for token in scan(text, ROOT):
        assert text.split("\n")[token.line - 1][token.column - 1 :].startswith(token.text)
