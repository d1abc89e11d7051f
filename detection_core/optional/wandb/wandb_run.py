"""A run of Weights & Biases."""

import os
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np

from detection_core.loggers.base import Histogram, Logger, RunIds, Status
from detection_core.storage import files

_STEP = "step"


class WandbLogger(Logger):
    """Logs to one run, which starts with the first entry; a resumed training continues its run by `ids`.

    The account comes from WANDB_API_KEY or `wandb login`. With WANDB_MODE=offline the run stays in files,
    which `wandb sync` uploads later. They are in `folder`; "" means the current folder.

    `options` has the project, the entity (user or team; "": the account's default) and the run_name ("":
    Weights & Biases chooses one).
    """

    def __init__(self, options: Mapping[str, str], ids: RunIds, folder: str = "") -> None:
        self._options, self._ids, self._folder = options, ids, folder
        self._run: Any = None

    def log_parameters(self, values: Mapping[str, str]) -> None:
        """Log parameters."""
        self._begun().config.update(dict(values), allow_val_change=True)

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        """Log metrics of a step."""
        del split  # losses and metrics have different names
        self._begun().log({**values, _STEP: step})

    def log_images(self, images: Mapping[str, np.ndarray], step: int, split: str) -> None:
        """Log pictures of a step."""
        import wandb

        named = {f"{split}/{name}": wandb.Image(image) for name, image in images.items()}
        self._begun().log({**named, _STEP: step})

    def log_histograms(self, values: Mapping[str, Histogram], step: int) -> None:
        """Log histograms of a step."""
        import wandb

        named = {name: wandb.Histogram(np_histogram=(h.counts, h.edges)) for name, h in values.items()}
        self._begun().log({**named, _STEP: step})

    def log_artifact(self, name: str, content: bytes) -> None:
        """Upload a file via the run's folder."""
        with open(os.path.join(self._begun().dir, name), "wb") as f:
            f.write(content)

    def close(self, status: Status) -> None:
        """End the run."""
        self._begun().finish(exit_code=0 if status == "finished" else 1)

    def _begun(self) -> Any:
        import wandb

        if self._run is None:
            run_id = self._ids.find("wandb") or uuid.uuid4().hex[:16]
            self._run = wandb.init(
                project=self._options["project"],
                entity=self._options["entity"] or None,
                name=self._options["run_name"] or None,
                id=run_id,
                resume="allow",
                dir=self._folder if self._folder and not files.is_remote(self._folder) else None,
                settings=wandb.Settings(silent=True, console="off"),
            )
            self._ids.keep("wandb", run_id)
            # A resumed training logs the steps after its checkpoint again, which wandb's step counter would
            # reject.
            self._run.define_metric("*", step_metric=_STEP)
        return self._run


def open_run(values: Mapping[str, str], folder: str) -> Logger:
    """Return a logger for the training in this folder."""
    return WandbLogger(values, RunIds(folder), folder)
