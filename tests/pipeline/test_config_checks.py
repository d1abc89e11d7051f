import pytest

from detection_core.errors import ConfigError
from pipeline.dag import build_dag
from pipeline.settings.settings_file import load_settings
from tests.support.cases import refused
from tests.support.refusals import not_refused


@pytest.fixture
def label_map(tmp_path):
    """A function that writes a label map of so many classes, and returns its path."""

    def write(classes):
        path = tmp_path / "label_map.pbtxt"
        path.write_text("".join(f'item {{ id: {i + 1} name: "n{i}" }}\n' for i in range(classes)))
        return f"data.label_map={path}"

    return write


def test_a_label_map_has_as_many_classes_as_the_model_or_gives_their_number(
    digits_settings, label_map, tmp_path
):
    assert build_dag(load_settings(digits_settings, [label_map(10)]))
    settings = load_settings(digits_settings, [label_map(9)])
    refused(ConfigError, r"config:\d+: model.ssd.num_classes: expected the 9 classes", build_dag, settings)
    (tmp_path / "label_map.pbtxt").write_text("item {", encoding="utf-8")
    refused(ConfigError, r"label_map.pbtxt:", build_dag, settings)
    for classes in (9, 10):
        changes = [label_map(classes), "model.ssd.num_classes=unset"]
        assert build_dag(load_settings(digits_settings, changes))
    # One of the pods is not looked for.
    assert build_dag(load_settings(digits_settings, ["data.label_map=/data/label_map.pbtxt"]))


def test_what_trainer_would_refuse_stops_a_run_before_it_begins(digits_settings, tmp_path, cli):
    for change, message in (
        ("train_config.num_steps=0", "train_config.num_steps: expected the number of updates"),
        ("model.ssd.feature_extractor.type=ssd_mobilenet_v9_keras", "pipeline.config:"),
        ("model.ssd.anchor_generator.multiscale_anchor_generator.max_level=6", "pipeline.config:"),
        ("train_input_reader.shuffle_buffer_size=4000000000", "pipeline.config:"),
    ):
        assert message in cli.refused("validate", digits_settings, "--set", change)
        cli("run", digits_settings, "--set", change, code=2)
        assert not (tmp_path / "build" / "digits" / "workspace").exists()


def test_a_threshold_on_an_unknown_metric_is_refused_before_a_model_is_trained(digits_settings):
    def build(change):
        return build_dag(load_settings(digits_settings, [change]))

    cases = {
        "evaluate.thresholds.DetectionBoxes_Precision/mAP@.5IOU.lower_bound=0.9": (
            r"evaluate.thresholds: .*did you mean .*mAP@.50IOU"
        ),
        "evaluate.quantized_thresholds.map.min_change=0": "evaluate.quantized_thresholds: expected a metric",
    }
    assert not not_refused(build, cases.items(), ConfigError)
    assert build("evaluate.thresholds.DetectionBoxes_PerformanceByCategory/mAP/3.lower_bound=0.9")
