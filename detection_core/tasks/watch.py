"""Measure the checkpoints of a training that another process runs."""

import contextlib
import dataclasses
import logging
import time

from detection_core.artifacts.detector import PIPELINE_CONFIG
from detection_core.artifacts.evaluation import MAP
from detection_core.artifacts.model_run import LOGS, VALIDATIONS, ValidationLine
from detection_core.builders.detector import configured_model
from detection_core.builders.train_plan import ValidationPlan, build_optimization, build_train_plan
from detection_core.config import check
from detection_core.config.input_paths import point_at_examples
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import load_pipeline_config
from detection_core.config.pipeline_config import CheckedConfig
from detection_core.errors import ConfigError, DataError
from detection_core.loggers.tensorboard import TensorBoardLogger
from detection_core.optimizers.optimization import MovingAverage, with_average
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.tasks.fitting.detector_measure import DetectorMeasure
from detection_core.tasks.fitting.work_folder import FINISHED
from detection_core.training.actions import LoggedTraining
from detection_core.training.checkpoints import TrainingCheckpoints, checkpoint_steps
from detection_core.training.loop import CHECKPOINTS
from detection_core.training.validation import ValidationOptions, best_lines
from detection_core.training.variables import trained_variables

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """How long to follow a training.

    Attributes:
        timeout_minutes: watching ends after this time without a new checkpoint.
        poll_seconds: interval between polls.
        examples_dir: output of ExampleGen to measure on; "": the evaluation images of the training's config.
        split: of `examples_dir`.
    """

    timeout_minutes: float = 60.0
    poll_seconds: float = 5.0
    examples_dir: str = ""
    split: str = "eval"


def watch(work_dir: str, output_dir: str, options: WatchOptions | None = None) -> list[ValidationLine]:
    """Measure each new checkpoint of a training until its last step.

    Each checkpoint is copied before it is read; one that the training removes meanwhile is skipped. Of
    several new ones only the newest is measured. Checkpoints already measured in `output_dir` are skipped.

    Args:
        work_dir: the folder of the unfinished training, or its parent.
        output_dir: gets `validation.jsonl` and `logs/eval`.
        options: timeout and data.

    Returns:
        The results, by rising steps.

    Raises:
        ConfigError: if the folder contains several trainings.
        DataError: if no training appears there in time.
        ModelError: if the checkpoints do not fit the config's model, such as those of a quantization-aware
            training.
    """
    options = options or WatchOptions()
    with contextlib.closing(_Watched(_await_training(work_dir, options), output_dir, options)) as watched:
        return watched.follow()


class _Watched:
    def __init__(self, folder: str, output_dir: str, options: WatchOptions) -> None:
        self._folder, self._output, self._options = folder, output_dir, options
        config = _training_config(folder, options)
        self._plan = build_train_plan(config)
        label_map = load_label_map(self._plan.label_map_path)
        config = check.check_classes_filled_in(config, label_map.num_classes)
        # By default, compare the training's weights by COCO's mAP.
        compared = ValidationOptions(every_steps=1, objective={MAP: 1.0}, averaged=self._plan.writes_average)
        by_map = ValidationPlan(options=compared, max_images=0, writes_best=True)
        self._validation = self._plan.validation or by_map
        self._model = configured_model(config).build()
        decay = build_optimization(config).average_decay
        trained = trained_variables(
            self._model.trainable_variables, self._plan.options, self._model.networks.values()
        )
        self._average = MovingAverage(trained, decay) if decay else None
        self._measure = DetectorMeasure(self._model, config, label_map, self._validation)
        files.make_dirs(output_dir)
        self._lines = VALIDATIONS.read(output_dir)
        self._passed_over: set[int] = set()
        self._events = LoggedTraining(
            [TensorBoardLogger(files.join(output_dir, LOGS))], pictures=self._measure.named_pictures
        )

    def close(self) -> None:
        self._events.close()

    def follow(self) -> list[ValidationLine]:
        """Measure new checkpoints until the last step or the timeout."""
        waiting_since = time.monotonic()
        while True:
            finished = files.exists(files.join(self._folder, FINISHED)) or not files.exists(self._folder)
            measured = max((line.step for line in self._lines), default=-1)
            steps = checkpoint_steps(files.join(self._folder, CHECKPOINTS))
            new = (step for step in steps if step > measured and step not in self._passed_over)
            newest = max(new, default=None)
            if newest is not None and self._measure_step(newest):
                waiting_since = time.monotonic()
                continue
            if finished or any(line.step >= self._plan.options.num_steps for line in self._lines):
                return self._lines
            if time.monotonic() - waiting_since >= 60 * self._options.timeout_minutes:
                _logger.warning(
                    "watch | no new checkpoint in %g minutes in %s; the training goes on unwatched",
                    self._options.timeout_minutes,
                    self._folder,
                )
                return self._lines
            time.sleep(self._options.poll_seconds)

    def _measure_step(self, step: int) -> bool:
        """Measure a checkpoint; return whether it still existed."""
        parts = {"model": self._model} | ({"moving_average": self._average} if self._average else {})
        with ScratchFolder() as scratch:
            if not self._copy(step, scratch) or not TrainingCheckpoints(parts, scratch).restore(step):
                self._passed_over.add(step)
                return False
        options = self._validation.options
        with with_average(self._average, asked=options.averaged):
            line = options.measured(self._measure, step)
        self._lines.append(line)
        VALIDATIONS.write(self._output, self._lines)
        self._events.validated(line)
        best = next(iter(best_lines(self._lines, 1)), None)
        score = "unknown" if line.score is None else f"{line.score:.4f}"
        _logger.info("watch | step %d: score %s; best at step %d", step, score, best.step if best else step)
        return True

    def _copy(self, step: int, scratch: str) -> bool:
        """Copy a checkpoint; return whether the training kept it until the copy was complete."""
        folder, name = files.join(self._folder, CHECKPOINTS), f"ckpt-{step}"
        try:
            for path in files.list_matching(folder, f"{name}.*"):
                files.download(path, files.join(scratch, path.rpartition("/")[2]))
        except FileNotFoundError:
            return False
        # The index is deleted first when a checkpoint is removed, see `TrainingCheckpoints.remove`.
        return files.exists(files.join(folder, f"{name}.index"))


def _training_config(folder: str, options: WatchOptions) -> CheckedConfig:
    path = files.join(folder, PIPELINE_CONFIG)
    config = check.check_pipeline_config(load_pipeline_config(path), where=path)
    if options.examples_dir:
        config = point_at_examples(config, options.examples_dir, eval_split=options.split)
    check.check_training(config)
    check.check_evaluated_input(config)
    return config


def _await_training(work_dir: str, options: WatchOptions) -> str:
    """Wait for the config of the training; return its folder."""
    deadline = time.monotonic() + 60 * options.timeout_minutes
    while True:
        found = _trainings(work_dir)
        if len(found) > 1:
            raise ConfigError(
                f"expected the folder of one training, found {len(found)}: {', '.join(found)}; name one",
                where=work_dir,
            )
        if found:
            return found[0]
        if time.monotonic() >= deadline:
            raise DataError(
                f"expected a training to watch, found none in {options.timeout_minutes:g} minutes; name the"
                " folder of its unfinished work, such as OUTPUT/work of detflow train",
                where=work_dir,
            )
        time.sleep(options.poll_seconds)


def _trainings(work_dir: str) -> list[str]:
    """Return the given training folder, otherwise the unfinished ones below it."""
    if files.exists(files.join(work_dir, PIPELINE_CONFIG)):
        return [work_dir]
    names = files.list_dir(work_dir) if files.is_dir(work_dir) else ()
    below = [files.join(work_dir, name) for name in names]
    found = [folder for folder in below if files.exists(files.join(folder, PIPELINE_CONFIG))]
    unfinished = [folder for folder in found if not files.exists(files.join(folder, FINISHED))]
    return unfinished or found
