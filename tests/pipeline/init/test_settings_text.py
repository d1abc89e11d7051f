import yaml

from detection_core.zoo.fine_tuning import Choice
from pipeline.init.settings_text import choice_comment, format_settings_file

HOSTILE = ["a: b", "#x", "- x", "{SPAN}", "yes", "3", "", "a\nb", "\u2028é", '"', "null", "*a", "x" * 300]


def choice(path, value, reason="", source=""):
    return Choice(path=path, value=value, reason=reason, source=source)


def test_the_text_holds_what_was_chosen():
    for value in (*HOSTILE, 3, 0.5, ["a", "b"], {"train": 0.8, "eval": 0.2}, {"a": {"b": "c: d"}}):
        choices = [choice("name", "x"), choice("data.path", value, f"of {value}")]
        text = format_settings_file(["first"], choices)
        assert yaml.safe_load(text) == {"name": "x", "data": {"path": value}}
        assert text.startswith("# first\nname: x\n\ndata:\n  # of")


def test_long_mappings_stand_on_lines_of_their_own():
    long = {f"train_config.optimizer.momentum_optimizer.field_{i}": i for i in range(4)}
    text = format_settings_file([], [choice("quantize.overrides", long), choice("quantize.enabled", True)])
    assert yaml.safe_load(text) == {"quantize": {"overrides": long, "enabled": True}}
    assert "\n    train_config.optimizer.momentum_optimizer.field_2: 2\n" in text
    assert text.count("quantize:") == 1


def test_a_reason_names_its_paper():
    paper = "https://arxiv.org/abs/1811.08883"
    assert choice_comment(choice("a", 1, "many epochs", paper)) == f"many epochs ({paper})"
    assert choice_comment(choice("a", 1, "many epochs", "the caller")) == "many epochs"
    assert choice_comment(choice("a", 1, "", paper)) == ""
