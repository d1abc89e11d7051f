import functools
from pathlib import Path

from detection_core.errors import ConfigError
from pipeline.tuning.space import Parameter, Space, load_space
from tests.support.cases import refused
from tests.support.refusals import not_refused

ROOT = Path(__file__).parents[3]


def space(tmp_path, text):
    path = tmp_path / "space.yaml"
    path.write_text(text)
    return load_space(str(path))


def test_ranges_and_choices_are_read(tmp_path):
    found = space(
        tmp_path,
        """
parameters:
  learning_rate: {low: 1e-4, high: 0.1, log: true}
  train_config.batch_size: {low: 4, high: 16, step: 4}
  train_config.gradient_clipping_by_norm: {low: 0, high: 10.0}
  train_config.data_augmentation_options[0]: {choices: ["ssd_random_crop {}", "random_horizontal_flip {}"]}
trials: 7
sampler: random
pruner: hyperband
startup_trials: 2
seed: 3
""",
    )
    assert found == Space(
        parameters={
            "learning_rate": Parameter(low=1e-4, high=0.1, log=True),
            "train_config.batch_size": Parameter(low=4, high=16, step=4),
            "train_config.gradient_clipping_by_norm": Parameter(low=0.0, high=10.0),
            "train_config.data_augmentation_options[0]": Parameter(
                choices=("ssd_random_crop {}", "random_horizontal_flip {}")
            ),
        },
        trials=7,
        sampler="random",
        pruner="hyperband",
        startup_trials=2,
        seed=3,
    )
    assert isinstance(found.parameters["train_config.batch_size"].low, int)
    assert isinstance(found.parameters["train_config.gradient_clipping_by_norm"].low, float)


WRONG = [
    ("[]", "expected a mapping with the key parameters"),
    ("parameters: {}", "parameters"),
    ("parameters: {a: {low: 1, high: 2}}\ntrails: 3", "trails"),
    ("parameters: {a: {low: 1, high: 2}}\ntrials: 0", "trials"),
    ("parameters: {a: {low: 1, high: 2}}\nsampler: grid", "sampler"),
    ("parameters: {a: {low: 1}}", r"parameters\.a: expected low and high"),
    ("parameters: {a: {low: 2, high: 1}}", r"a\.high: expected more than low"),
    ("parameters: {a: {low: 0, high: 1, log: true}}", r"a\.low: expected more than 0 on a log scale"),
    ("parameters: {a: {low: x, high: 1}}", r"a\.low: expected a number, found 'x'"),
    ("parameters: {a: {low: .inf, high: 1}}", r"a\.low: expected a number"),
    ("parameters: {a: {low: 1, high: 9, step: 0.5}}", r"a\.step: expected a whole number"),
    ("parameters: {a: {low: 1, high: 9, step: 1, log: true}}", r"a\.step: expected no step on a log"),
    ("parameters: {a: {low: 1, high: 2, steps: 1}}", "found 'steps'"),
    ("parameters: {a: {choices: []}}", r"a\.choices: expected a list of values"),
    ("parameters: {a: {choices: [{b: 1}]}}", r"a\.choices: expected a list of values"),
    ("parameters: {a: {choices: [1, 1]}}", r"a\.choices: expected each value once"),
    ("parameters: {a: {choices: [1], low: 1}}", "found both"),
]


def test_what_says_nothing_is_refused_with_its_place(tmp_path):
    cases = [(text, rf"space\.yaml.*{message}") for text, message in WRONG]
    assert not not_refused(functools.partial(space, tmp_path), cases, ConfigError)
    refused(ConfigError, "/no/such: no such file", load_space, "/no/such")
    assert len(load_space(str(ROOT / "examples" / "digits" / "space.yaml")).parameters) == 3
