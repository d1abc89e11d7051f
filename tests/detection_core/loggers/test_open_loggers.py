"""The loggers that a config names."""

import importlib.util

import pytest

from detection_core.errors import ConfigError
from detection_core.loggers.background import BackgroundLogger
from detection_core.loggers.metric_lines import MetricLines
from detection_core.loggers.mlflow_run import MlflowOptions
from detection_core.loggers.open_loggers import LoggerOptions, check_loggers, open_loggers
from detection_core.loggers.wandb_run import WandbOptions
from tests.support.cases import cases

BOTH = LoggerOptions(trackers=(MlflowOptions(), WandbOptions()), metric_lines=True)


@cases((MlflowOptions(), "mlflow"), (WandbOptions(), "wandb"))
def test_a_package_that_is_missing_is_told_with_its_remedy(monkeypatch, *, options, package):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    remedy = rf"train_config.monitoring.{package}: .*package {package}.*pip install 'detflow\[{package}\]'"
    with pytest.raises(ConfigError, match=remedy):
        check_loggers(LoggerOptions(trackers=(options,)))


def test_servers_are_logged_to_in_the_background(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert open_loggers(LoggerOptions(), str(tmp_path)) == [], "nothing is missing"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    kinds = [type(logger) for logger in open_loggers(BOTH, str(tmp_path))]
    assert kinds == [MetricLines, BackgroundLogger, BackgroundLogger]
