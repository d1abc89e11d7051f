"""Settings of the experiment tracking servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from detection_core.allowed_values import up_to
from detection_core.detectors.rules import Rules
from detection_core.errors import Problem
from detection_core.protos.monitoring_pb2 import Monitoring

_READER = "builders.train_plan"


def _experiment(message: Monitoring.Mlflow, path: str) -> Iterator[Problem]:
    """Find an experiment without a name, and a server address with a password."""
    if not message.experiment.strip():
        yield Problem(
            path=f"{path}.experiment", message="expected a name, found none; give one, or remove it"
        )
    if "@" in message.tracking_uri.partition("://")[2].partition("/")[0]:
        text = (
            "expected an address without a password, as configs are copied and published, found one; set"
            " MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
        yield Problem(path=f"{path}.tracking_uri", message=text)


def _project(message: Monitoring.Wandb, path: str) -> Iterator[Problem]:
    """Find a project without a name, and one with characters that its address cannot hold."""
    name = message.project
    if not name.strip() or set(name) & set("/\\#?%:"):
        text = f"expected a name without any of / \\ # ? % :, found {name!r}; correct it"
        yield Problem(path=f"{path}.project", message=text)


RULES: Mapping[str, Rules] = {
    "Monitoring": Rules(
        (_READER, "loggers.open_loggers"), ranges={"histograms_every_steps": up_to(1_000_000_000, 0)}
    ),
    "Monitoring.Profile": Rules(
        _READER, ranges={"first_step": up_to(1_000_000_000, 0), "steps": up_to(10_000)}
    ),
    "Monitoring.Mlflow": Rules("optional.mlflow.mlflow_run", check=_experiment),
    "Monitoring.Wandb": Rules("optional.wandb.wandb_run", check=_project),
}
