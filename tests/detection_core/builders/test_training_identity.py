import hashlib

from detection_core.builders.training_identity import build_training_identity
from detection_core.config.load import parse_pipeline_config
from detection_core.config.paths.overrides import apply_overrides
from tests.support.tiny_training import config_text

READER = (
    "train_input_reader { label_map_path: '/%s[1]/labels.pbtxt' shuffle: false"
    " tf_record_input_reader { input_path: '/%s/a-*' input_path: '/%s/b' } }"
)


def _config(place, extra=""):
    return parse_pipeline_config(config_text() + READER % (place, place, place) + extra)


def _identity(place, extra=""):
    return build_training_identity(_config(place, extra))


def test_where_files_lie_and_how_a_training_is_followed_and_evaluated_is_left_out():
    evaluation = "eval_config { num_examples: 3 } eval_input_reader {}"
    here, there = _identity("here"), _identity("there", evaluation)
    assert here.text == there.text and "shuffle: false" in here.text
    assert here.inputs == ("/here[[]1]/labels.pbtxt", "/here/a-*", "/here/b")
    # As the first published layout wrote it; another text would lose every unfinished training.
    assert hashlib.sha256(here.text.encode()).hexdigest()[:16] == "58ca700720fe1500"
    config = apply_overrides(_config("here"), {"train_config.monitoring.mlflow.experiment": "x"})
    before = config.SerializeToString()
    assert build_training_identity(config).text == here.text
    assert config.SerializeToString() == before


def test_what_a_validated_training_is_measured_on_and_how_makes_it_another():
    def validated(place, **evaluation):
        records = f"tf_record_input_reader {{ input_path: '/{place}/c' }}"
        config = _config("here", f"eval_input_reader {{ label_map_path: '{place}' {records} }}")
        fields = {f"eval_config.{name}": value for name, value in evaluation.items()}
        return build_training_identity(apply_overrides(config, {"train_config.validation": {}, **fields}))

    assert validated("x").inputs == (*_identity("here").inputs, "x", "/x/c")
    assert validated("x").text == validated("y").text != _identity("here").text
    drawn = validated("x", num_visualizations=3)
    measured = validated("x", num_visualizations=3, use_moving_averages=True)
    assert drawn.text == validated("x").text != measured.text
