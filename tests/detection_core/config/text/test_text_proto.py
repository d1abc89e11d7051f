from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.config.text.text_proto import format_message, parse_message
from detection_core.errors import ConfigError
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import cases, refused
from tests.support.configs import PATHS
from tests.support.random_messages import messages


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


def test_text_from_no_file_is_named_by_its_line():
    refused(ConfigError, r"^line 2: model\.sdd", parse_message, "model {\n sdd {} }", TrainEvalPipelineConfig)
    refused(ConfigError, "metrics_set", parse, r"eval_config { metrics_set: '\xff' }")


@settings(max_examples=60, deadline=None)
@given(messages(TrainEvalPipelineConfig.DESCRIPTOR))
def test_any_message_comes_back_from_its_text(message):
    assert parse_message(format_message(message), TrainEvalPipelineConfig) == message


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
