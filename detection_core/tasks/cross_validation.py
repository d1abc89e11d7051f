"""Cross-validation: detect every image of some folds with a detector that was trained on the others."""

import logging
from collections.abc import Sequence

from detection_core.config.check import check_pipeline_config
from detection_core.config.input_paths import point_at_other_folds
from detection_core.config.pipeline_config import PipelineConfig
from detection_core.errors import ConfigError
from detection_core.storage import files
from detection_core.tasks.train import train

_logger = logging.getLogger(__name__)


def fold_splits(folds: int) -> dict[str, float]:
    """Return the splits of ExampleGen that are folds of equal size; ConfigError for fewer than two.

    An image's id decides its fold, as it decides its split.
    """
    if folds < 2:
        raise ConfigError(f"expected two folds or more, found {folds}", where="folds")
    return {f"fold-{number}": 1 / folds for number in range(1, folds + 1)}


def train_without(
    fold: str, config: PipelineConfig, examples_dir: str, folds: Sequence[str], folder: str
) -> str:
    """Train a detector on all folds but one and return its folder; a finished or killed training resumes.

    Args:
        fold: the split of `examples_dir` to leave out.
        config: of the training; its readers are replaced.
        examples_dir: examples whose splits are the folds.
        folds: all splits.
        folder: durable; gets `FOLD/model`, `FOLD/model_run` and `FOLD/work`.

    Raises:
        DetectionError: as `tasks.train.train`.
    """
    _logger.info("cross-validation | %s of %d: train on the others", fold, len(folds))
    model, run, work = (files.join(folder, fold, name) for name in ("model", "model_run", "work"))
    own = check_pipeline_config(point_at_other_folds(config, examples_dir, fold, folds))
    train(own, model_dir=model, model_run_dir=run, work_dir=work)
    return model
