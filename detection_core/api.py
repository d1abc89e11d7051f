"""The functions of the library, for `from detection_core import ...`.

Each takes paths or the result of another. It imports its dependencies when called, and raises a
`DetectionError` for errors that its caller can correct.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from detection_core.extensions import with_extensions
from detection_core.storage.scratch_folder import ScratchFolder

if TYPE_CHECKING:
    import numpy as np

    from detection_core.artifacts.evaluation import EvalReport
    from detection_core.artifacts.model_run import QuantizationReport, TrainReport
    from detection_core.artifacts.parity import ParityReport
    from detection_core.artifacts.prediction import Prediction
    from detection_core.builders.evaluation_settings import EvaluateOptions
    from detection_core.config.paths.overrides import Overrides
    from detection_core.config.pipeline_config import CheckedConfig, Config
    from detection_core.detectors.base import Detector
    from detection_core.ops.tile_options import TileOptions
    from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
    from detection_core.tasks.exporting.parity import TFLiteExportOptions

Path = str | os.PathLike[str]
"""A local path, or a URI of an object store."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _TrainingOutput(os.PathLike[str]):
    """Result of a training; usable as the path of its detector folder."""

    model: str
    run: str

    def __fspath__(self) -> str:
        return self.model


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainedDetector(_TrainingOutput):
    """Result of `train`; usable as the path of its detector folder.

    Attributes:
        model: detector folder.
        run: folder with the as-run config, last checkpoint, logs, history and report.
        report: report of the training.
    """

    report: TrainReport


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizedDetector(_TrainingOutput):
    """Result of `quantize`; usable as the path of its detector folder.

    Attributes:
        model: detector folder with fake quantization in its graph.
        run: as in `TrainedDetector`.
        report: report of the training.
    """

    report: QuantizationReport


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportedFiles:
    """Result of `export`.

    Attributes:
        files: format to .tflite file.
        labels: file with the names of the classes, a line each.
        report: accuracy loss of each file against the SavedModel, and whether it is within the bound.
    """

    files: Mapping[str, str]
    labels: str
    report: ParityReport


@with_extensions
def load_config(
    path: Path, overrides: Overrides = (), *, override_files: Sequence[Path] = ()
) -> TrainEvalPipelineConfig:
    """Read a pipeline.config, apply overrides, and refuse values out of range and contradictions.

    Args:
        path: the file, protobuf text format.
        overrides: field path or short name to value, such as `{"train_config.num_steps": 200}`; or pairs.
        override_files: partial pipeline.config files, merged in order before `overrides`.

    Returns:
        The Object Detection API's message; its fields can be changed as usual.

    Raises:
        ConfigError: names every problem with its line and field.
    """
    from detection_core.config.load import load_checked_config

    return load_checked_config(
        os.fspath(path), overrides, override_files=[os.fspath(file) for file in override_files]
    )


@with_extensions
def build_detector(config: Path | TrainEvalPipelineConfig, *, seed: int = 0) -> Detector:
    """Build a detector: with initial weights from a config, or with trained ones from a detector folder.

    Args:
        config: a config, the path of a pipeline.config, or a folder that `train` or `quantize` made.
        seed: of the initial weights.

    Raises:
        ConfigError: if the config contradicts itself or uses an unsupported feature.
        ModelError: if the folder's weights do not fit its config.
    """
    from detection_core.builders.detector import configured_model
    from detection_core.config.check import check_detector
    from detection_core.exporters.detector_folder import load_detector
    from detection_core.storage import files

    if isinstance(config, str | os.PathLike) and files.is_dir(os.fspath(config)):
        return load_detector(os.fspath(config)).model
    return configured_model(check_detector(_config(config))).build(seed=seed)


@with_extensions
def train(
    config: Path | TrainEvalPipelineConfig,
    *,
    output: Path,
    examples: Path | None = None,
    warm_start: Path | None = None,
    log_every: int = 20,
) -> TrainedDetector:
    """Train a detector as a config says.

    A killed training resumes from its last checkpoint when called again with the same arguments.

    Args:
        config: a config or the path of one.
        output: folder to write: `model`, `model_run`, and `work` with unfinished training.
        examples: folder of examples in ExampleGen's layout; None: the records and the label map that the
            config's `train_input_reader` names.
        warm_start: detector folder with the starting weights; replaces the config's `fine_tune_checkpoint`.
        log_every: steps between lines of the log.

    Raises:
        ConfigError: if the config cannot be used.
        DataError: if the examples cannot be read.
        ModelError: if the loss is not finite, or starting weights or a checkpoint do not fit.
    """
    from detection_core.storage import files
    from detection_core.tasks.train import train as run

    folder = os.fspath(output)
    model_dir, run_dir = (files.join(folder, name) for name in ("model", "model_run"))
    report = run(
        _checked(config, examples),
        model_dir=model_dir,
        model_run_dir=run_dir,
        work_dir=files.join(folder, "work"),
        warm_start_dir=_text(warm_start),
        log_every=log_every,
    )
    return TrainedDetector(model=model_dir, run=run_dir, report=report)


@with_extensions
def evaluate(
    model: Path,
    *,
    output: Path | None = None,
    examples: Path | None = None,
    config: Path | TrainEvalPipelineConfig | None = None,
    baseline: Path | None = None,
    options: EvaluateOptions | None = None,
) -> EvalReport:
    """Measure a detector on its evaluation input.

    Args:
        model: a detector folder, a SavedModel's folder or a .tflite file.
        output: folder to write, with `metrics.json`, `curves.json` and `pictures`; an existing one is
            replaced. None: nothing is written.
        examples: folder of examples in ExampleGen's layout; None: the records and the label map that the
            first `eval_input_reader` names.
        config: defines `eval_input_reader` and `eval_config`; None: the detector folder's config.
        baseline: another detector to compare with.
        options: the split, thresholds and number of pictures; the config defines metrics and drawing.

    Raises:
        ConfigError: if no evaluation input is known, or for a threshold on an unknown metric.
        DataError: if there is no image, or a record is damaged.
        ModelError: if a detector cannot be run or returns NaN or infinity.
    """
    from detection_core.builders.evaluation_settings import EvaluateOptions
    from detection_core.tasks.evaluate import plan_evaluation

    options = options or EvaluateOptions()
    if output is None:
        options = dataclasses.replace(options, pictures=0)
    with ScratchFolder() as scratch:
        return plan_evaluation(
            model_path=os.fspath(model),
            config=None if config is None else _config(config),
            examples_dir=_text(examples),
            evaluation_dir=os.path.join(scratch, "evaluation") if output is None else os.fspath(output),
            baseline_path=_text(baseline),
            options=options,
        ).run()


@with_extensions
def quantize(
    model: Path,
    *,
    output: Path,
    examples: Path | None = None,
    config: Path | TrainEvalPipelineConfig | None = None,
) -> QuantizedDetector:
    """Continue training a detector with fake quantization, as a config's `graph_rewriter` says.

    Args:
        model: float detector folder.
        output: folder to write: `quantized_model`, `quantized_run`, `quantization`, and `work` with
            unfinished training.
        examples: folder of examples in ExampleGen's layout; None: those that the config's readers name.
        config: the detector's training config, changed only in `graph_rewriter`, `train_config` and input
            readers; None: the detector folder's config.

    Raises:
        ConfigError: if the config cannot be used, or is of another model than the detector.
        ContractError: if `model` is not a detector folder.
        DataError: if the examples cannot be read.
        ModelError: if the loss is not finite, or a checkpoint does not fit.
    """
    from detection_core.storage import files
    from detection_core.tasks.quantize import quantize as run

    folder, path = os.fspath(output), os.fspath(model)
    model_dir, run_dir = (files.join(folder, name) for name in ("quantized_model", "quantized_run"))
    report = run(
        _checked(_stored_config(path) if config is None else config, examples),
        model_dir=path,
        quantized_model_dir=model_dir,
        quantized_run_dir=run_dir,
        quantization_dir=files.join(folder, "quantization"),
        work_dir=files.join(folder, "work"),
    )
    return QuantizedDetector(model=model_dir, run=run_dir, report=report)


@with_extensions
def export(
    model: Path,
    *,
    output: Path,
    options: TFLiteExportOptions,
    quantized: Path | None = None,
    examples: Path | None = None,
    config: Path | TrainEvalPipelineConfig | None = None,
) -> ExportedFiles:
    """Write a detector as TensorFlow Lite files and measure their accuracy loss against its SavedModel.

    A file that lost too much is still written and reported; `report.blessed` is then False.

    Args:
        model: float detector folder.
        output: folder to write: `tflite` and `parity`.
        options: the bound on the loss, formats, the split, and limits of the post-processing operation.
        quantized: result of `quantize` for the detector; None: the int8 file is quantized after training.
        examples: folder of examples in ExampleGen's layout; None: those that the config's readers name.
        config: its readers name the examples; None: the detector folder's config.

    Raises:
        ContractError: if a folder is not a detector folder.
        DataError: if there is nothing to measure on.
        ExportError: if the detector cannot be converted.
    """
    from detection_core.artifacts.tflite_metadata import LABEL_FILE
    from detection_core.exporters.tflite_formats import file_name
    from detection_core.storage import files
    from detection_core.tasks.export import export_tflite

    folder = os.fspath(output)
    written = files.join(folder, "tflite")
    report = export_tflite(
        os.fspath(model),
        _text(examples),
        options,
        tflite_dir=written,
        parity_dir=files.join(folder, "parity"),
        quantized_model_dir=_text(quantized),
        config=None if config is None else _config(config),
    )
    paths = {name: files.join(written, file_name(name)) for name in options.formats}
    return ExportedFiles(files=paths, labels=files.join(written, LABEL_FILE), report=report)


def predict(
    model: Path,
    images: Sequence[Path | np.ndarray],
    *,
    output: Path | None = None,
    min_score: float = 0.5,
    trust: bool = False,
    tiles: TileOptions | None = None,
) -> list[Prediction]:
    """Detect objects in images.

    An unusable image gives a prediction with an `error`, and the others are processed.

    Args:
        model: a push destination, a detector folder, a SavedModel's folder or a .tflite file.
        images: image files, or pixels, uint8 [H, W, 3], RGB.
        output: folder for a picture and a JSON file of each image; None: nothing is written.
        min_score: detections below it are left out.
        trust: run a SavedModel even if its graph does more than compute, such as reading files.
        tiles: detect also in tiles, for small objects; None: in whole images only.

    Returns:
        One prediction for each image, in order.

    Raises:
        ConfigError: if `min_score` is not a number, or `output` is the folder of an image.
        ModelError: if the model cannot be run.
        DataError: if none of the images can be used.
    """
    from detection_core.tasks.predict import PredictOptions
    from detection_core.tasks.predict import predict as run

    return run(
        os.fspath(model),
        [os.fspath(image) if isinstance(image, str | os.PathLike) else image for image in images],
        _text(output),
        min_score,
        trust=trust,
        options=PredictOptions(tiles=tiles),
    )


def _text(path: Path | None) -> str:
    return "" if path is None else os.fspath(path)


def _config(config: Path | TrainEvalPipelineConfig) -> TrainEvalPipelineConfig:
    return load_config(config) if isinstance(config, str | os.PathLike) else config


def _checked(config: Path | TrainEvalPipelineConfig, examples: Path | None) -> CheckedConfig:
    """Return a training config, checked once: one from a file when it is read, while its lines are known."""
    from detection_core.config.check import check_pipeline_config
    from detection_core.config.load import load_checked_config

    if isinstance(config, str | os.PathLike):
        return _reading(load_checked_config(os.fspath(config)), examples)
    return check_pipeline_config(_reading(config, examples))


def _stored_config(model: str) -> TrainEvalPipelineConfig:
    """Return the config of a detector folder; refuse other paths."""
    from detection_core.artifacts.detector import PIPELINE_CONFIG, extra_file, read_extra
    from detection_core.config.load import parse_pipeline_config

    return parse_pipeline_config(read_extra(model, PIPELINE_CONFIG), where=extra_file(model, PIPELINE_CONFIG))


def _reading(config: Config, examples: Path | None) -> Config:
    """Return a config that reads the given folder of examples, if any; refuse an incomplete split `train`.

    The given config is not changed.
    """
    if examples is None:
        return config
    from detection_core.config.input_paths import point_at_examples
    from detection_core.tasks.examples import check_split

    folder = os.fspath(examples)
    check_split(folder, "train")
    return point_at_examples(config, folder)
