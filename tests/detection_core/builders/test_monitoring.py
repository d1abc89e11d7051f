from detection_core.builders.monitoring import build_loggers, build_profile
from detection_core.loggers.mlflow_run import MlflowOptions
from detection_core.loggers.open_loggers import LoggerOptions
from detection_core.loggers.wandb_run import WandbOptions
from detection_core.protos.train_pb2 import TrainConfig
from detection_core.training.profiling import ProfileOptions
from tests.support.configs import parsed


def config(block):
    return parsed(TrainConfig, f"monitoring {{ {block} }}")


def test_profiles_and_trackers_are_those_that_are_asked_for():
    assert build_profile(config("")) is None
    assert build_profile(config("profile {}")) == ProfileOptions(first_step=10, steps=5)
    traced = build_profile(config("profile { first_step: 3 steps: 2 }"))
    assert traced == ProfileOptions(first_step=3, steps=2)

    assert build_loggers(config("")) == LoggerOptions()
    assert build_loggers(config("mlflow {} wandb {}")).trackers == (MlflowOptions(), WandbOptions())
    block = "mlflow { tracking_uri: 'http://x:5000' experiment: 'e' run_name: 'r' } metric_lines: true"
    block += " wandb { project: 'p' entity: 't' run_name: 'n' }"
    mlflow = MlflowOptions(tracking_uri="http://x:5000", experiment="e", run_name="r")
    wandb = WandbOptions(project="p", entity="t", run_name="n")
    assert build_loggers(config(block)) == LoggerOptions(trackers=(mlflow, wandb), metric_lines=True)
