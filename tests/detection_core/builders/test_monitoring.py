from detection_core.builders.monitoring import build_loggers, build_profile
from detection_core.config.load import parse_pipeline_config
from detection_core.loggers.mlflow_run import MlflowOptions
from detection_core.loggers.open_loggers import LoggerOptions
from detection_core.loggers.wandb_run import WandbOptions
from detection_core.training.profiling import ProfileOptions
from tests.support.tiny_training import config_text


def built(block: str) -> LoggerOptions:
    text = config_text().replace("train_config {", f"train_config {{ monitoring {{ {block} }}")
    return build_loggers(parse_pipeline_config(text).train_config)


def test_a_span_of_updates_is_traced_where_it_is_asked_for() -> None:
    def profile(block: str) -> ProfileOptions | None:
        text = config_text().replace("train_config {", f"train_config {{ monitoring {{ {block} }}")
        return build_profile(parse_pipeline_config(text).train_config)

    assert profile("") is None
    assert profile("profile {}") == ProfileOptions(first_step=10, steps=5)
    assert profile("profile { first_step: 3 steps: 2 }") == ProfileOptions(first_step=3, steps=2)


def test_nothing_is_tracked_unless_it_is_asked_for() -> None:
    assert built("") == LoggerOptions()


def test_an_empty_block_asks_for_a_tracker() -> None:
    assert built("mlflow {} wandb {}").trackers == (MlflowOptions(), WandbOptions())


def test_every_field_arrives() -> None:
    found = built(
        "mlflow { tracking_uri: 'http://x:5000' experiment: 'e' run_name: 'r' }"
        " wandb { project: 'p' entity: 't' run_name: 'n' } metric_lines: true"
    )
    assert found == LoggerOptions(
        trackers=(
            MlflowOptions(tracking_uri="http://x:5000", experiment="e", run_name="r"),
            WandbOptions(project="p", entity="t", run_name="n"),
        ),
        metric_lines=True,
    )
