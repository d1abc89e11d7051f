import re

from detection_core.config.check import find_problems
from detection_core.config.load import parse_pipeline_config
from detection_core.config.messages.validation import validation_problems
from detection_core.config.paths.overrides import apply_overrides
from tests.support.cases import cases
from tests.support.tiny_training import config_text

CONFIG = parse_pipeline_config(config_text())


@cases(
    ("metric { weight: 2 }", r"metric\[0\]\.name.*expected the name of a metric"),
    ("metric { name: 'a' } metric { name: 'a' }", r"metric\[1\]\.name.*found a again"),
    ("metric { name: 'a' weight: 0 }", r"metric\[0\]\.weight.*score alike"),
    ("keep_best: 0", r"keep_best.*from 1 to 100"),
    ("every_minutes: -1", r"every_minutes"),
    ("min_gain: -0.1", r"min_gain.*0 or more"),
)
def test_what_says_nothing_is_refused(*, block, found):
    text = config_text().replace("train_config {", f"train_config {{ validation {{ {block} }}")
    [problem] = find_problems(parse_pipeline_config(text))
    assert re.search(found, f"{problem.path}: {problem.message}")


def test_images_to_validate_on_are_asked_for_when_training_begins():
    config = apply_overrides(CONFIG, {"train_config.validation.patience": 3})
    [problem] = validation_problems(config)
    assert problem.path == "eval_input_reader"
    assert not list(validation_problems(CONFIG))
