from detection_core.config.load import format_commented_config, load_pipeline_config, parse_pipeline_config
from detection_core.config.text.comments import comment_lines
from tests.support.configs import PYRAMID


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
