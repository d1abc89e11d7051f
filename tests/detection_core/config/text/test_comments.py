"""Comments in a written config."""

from detection_core.config.load import format_commented_config, load_pipeline_config, parse_pipeline_config
from detection_core.config.text.comments import comment_lines
from tests.support.configs import PYRAMID


def test_a_comment_stands_above_its_field_and_changes_nothing():
    config = load_pipeline_config(PYRAMID)
    text = format_commented_config(
        config,
        {
            "model.ssd.num_classes": "as many as there are",
            "train_config.data_augmentation_options": "all of them",
            "train_config.fine_tune_checkpoint": "not there",
        },
    )
    assert parse_pipeline_config(text) == config
    lines = text.split("\n")
    at = lines.index("    # as many as there are")
    assert lines[at + 1] == "    num_classes: 5"
    at = lines.index("  # all of them")
    assert lines[at + 1] == "  data_augmentation_options {"
    assert text.count("# all of them") == 1
    at = lines.index("# not there")
    assert lines[at + 1] == "train_config {"


def test_whatever_is_in_a_comment_stays_one():
    hostile = 'a\nmodel { } \r\u2028}\0 "x' + " word" * 60
    lines = comment_lines(hostile, "    ", width=80)
    assert len(lines) > 3
    assert all(line.startswith("    # ") and len(line) <= 80 for line in lines)
    assert not any(set(line) & set("\n\r\u2028\0") for line in lines)
    config = load_pipeline_config(PYRAMID)
    assert parse_pipeline_config(format_commented_config(config, {"model.ssd": hostile})) == config
    assert comment_lines("") == ["#"]
