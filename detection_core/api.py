"""The functions of the library, as `from detection_core import ...` gives them.

Each takes paths or what another one returned, imports what it needs when it is called, and raises errors of
`DetectionError` for what its caller can put right.
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
    from detection_core.config.paths.overrides import Overrides
    from detection_core.config.pipeline_config import CheckedConfig, Config
    from detection_core.detectors.base import Detector
    from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
    from detection_core.tasks.evaluate import EvaluateOptions
    from detection_core.tasks.export import TFLiteExportOptions

Path = str | os.PathLike[str]
"""A local path, or a URI of an object store."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _TrainingOutput(os.PathLike[str]):
    """What a training wrote; stands for the path of its detector folder."""

    model: str
    run: str

    def __fspath__(self) -> str:
        return self.model


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainedDetector(_TrainingOutput):
    """What `train` wrote; stands for the path of its detector folder.

    Attributes:
        model: detector folder.
        run: folder with the as-run config, last checkpoint, logs, history and report.
        report: how the training went.
    """

    report: TrainReport


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizedDetector(_TrainingOutput):
    """What `quantize` wrote; stands for the path of its detector folder.

    Attributes:
        model: detector folder with fake quantization in its graph.
        run: as of a `TrainedDetector`.
        report: how the training went.
    """

    report: QuantizationReport


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportedFiles:
    """What `export` wrote.

    Attributes:
        files: format to .tflite file.
        labels: file with the names of the classes, a line each.
        report: what each file lost against the SavedModel, and whether that is within the bound.
    """

    files: Mapping[str, str]
    labels: str
    report: ParityReport


@with_extensions
def load_config(
    path: Path, overrides: Overrides = (), *, override_files: Sequence[Path] = ()
) -> TrainEvalPipelineConfig:
    """Read a pipeline.config, apply overrides, and refuse what is out of range or contradicts itself.

    Args:
        path: the file, protobuf text format.
        overrides: field path or short name to value, such as `{"train_config.num_steps": 200}`; or pairs.
        override_files: partial pipeline.config files, merged one after the other before `overrides`.

    Returns:
        The Object Detection API's message; change fields as of any other.

    Raises:
        ConfigError: naming every problem with its line and field.
    """
    from detection_core.config.load import load_checked_config

    return load_checked_config(
        os.fspath(path), overrides, override_files=[os.fspath(file) for file in override_files]
    )


@with_extensions
def build_detector(config: Path | TrainEvalPipelineConfig, *, seed: int = 0) -> Detector:
    """Build a detector: from a config with first weights, from a detector folder with those that it has.

    Args:
        config: a config, the path of a pipeline.config, or a folder that `train` or `quantize` made.
        seed: of the first weights.

    Raises:
        ConfigError: when the config names something that does not exist here or contradicts itself.
        ModelError: when the folder's weights do not fit its config.
    """
    from detection_core.builders.detector import build_detector as build
    from detection_core.config.check import check_detector
    from detection_core.exporters.detector_folder import load_detector
    from detection_core.storage import files

    if isinstance(config, str | os.PathLike) and files.is_dir(os.fspath(config)):
        return load_detector(os.fspath(config)).model
    return build(check_detector(_config(config)).model, seed=seed)


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

    A killed training continues from its last checkpoint when it is called again with the same arguments.

    Args:
        config: a config or the path of one.
        output: folder to write: `model`, `model_run`, and `work` with unfinished training.
        examples: folder of examples as ExampleGen writes it; None: the records and the label map that the
            config's `train_input_reader` names.
        warm_start: detector folder whose weights to start from; they take the place of the config's
            `fine_tune_checkpoint`.
        log_every: steps between lines of the log.

    Raises:
        ConfigError: when the config cannot be followed.
        DataError: when the examples cannot be read.
        ModelError: when the loss is not finite, or starting weights or a checkpoint do not fit.
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
        output: folder to make, with `metrics.json`, `curves.json` and `pictures`; one that exists is
            replaced. None: nothing is written.
        examples: folder of examples as ExampleGen writes it; None: the records and the label map that the
            first `eval_input_reader` names.
        config: whose `eval_input_reader` and `eval_config` count; None: those of the detector folder.
        baseline: another detector to compare with.
        options: the split, thresholds and number of pictures; metrics and looks come from the config.

    Raises:
        ConfigError: when no evaluation input is known, or for a threshold on what is not measured.
        DataError: when there is no image, or a record is damaged.
        ModelError: when a detector cannot be run or gives what is not a number.
    """
    from detection_core.config.input_paths import require_evaluation_input
    from detection_core.tasks.evaluate import EvaluateOptions, evaluate_config, own_config

    path = os.fspath(model)
    options = options or EvaluateOptions()
    if output is None:
        options = dataclasses.replace(options, pictures=0)
    read = own_config(path) if config is None else _config(config)
    with ScratchFolder() as scratch:
        return evaluate_config(
            model_path=path,
            config=require_evaluation_input(
                _reading(read, examples, split=options.split, eval_split=options.split), path
            ),
            evaluation_dir=os.path.join(scratch, "evaluation") if output is None else os.fspath(output),
            baseline_path=_text(baseline),
            options=options,
        )


@with_extensions
def quantize(
    model: Path,
    *,
    output: Path,
    examples: Path | None = None,
    config: Path | TrainEvalPipelineConfig | None = None,
) -> QuantizedDetector:
    """Train a detector on with fake quantization in its graph, as a config's `graph_rewriter` says.

    Args:
        model: float detector folder.
        output: folder to write: `quantized_model`, `quantized_run`, `quantization`, and `work` with
            unfinished training.
        examples: folder of examples as ExampleGen writes it; None: what the config's readers name.
        config: the one that the detector was trained with, changed in `graph_rewriter`, `train_config` and
            input readers only; None: that of the detector folder.

    Raises:
        ConfigError: when the config cannot be followed, or is of another model than the detector.
        ContractError: when `model` is no detector folder.
        DataError: when the examples cannot be read.
        ModelError: when the loss is not finite, or a checkpoint does not fit.
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
    """Write a detector as TensorFlow Lite files and measure what each lost against its SavedModel.

    A file that lost too much is written and reported, `report.blessed` is then False.

    Args:
        model: float detector folder.
        output: folder to write: `tflite` and `parity`.
        options: the bound on the loss, formats, the split, and numbers of the post-processing operation.
        quantized: what `quantize` made of the detector; None: the int8 file is quantized after training.
        examples: folder of examples as ExampleGen writes it; None: what the config's readers name.
        config: whose readers name the examples; None: that of the detector folder.

    Raises:
        ContractError: when a folder is no detector folder.
        DataError: when there is nothing to measure on.
        ExportError: when the detector cannot be converted.
    """
    from detection_core.artifacts.tflite_metadata import LABEL_FILE
    from detection_core.config.input_paths import point_at_other_split, require_evaluation_input
    from detection_core.exporters.tflite_formats import file_name
    from detection_core.storage import files
    from detection_core.tasks.export import export_tflite_config

    folder, path = os.fspath(output), os.fspath(model)
    read = _stored_config(path) if config is None else _config(config)
    written = files.join(folder, "tflite")
    other = None if examples is None else point_at_other_split(read, os.fspath(examples), options.split)
    report = export_tflite_config(
        path,
        require_evaluation_input(
            _reading(read, examples, split=options.split, eval_split=options.split), path
        ),
        options,
        tflite_dir=written,
        parity_dir=files.join(folder, "parity"),
        quantized_model_dir=_text(quantized),
        choice_config=other,
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
) -> list[Prediction]:
    """Detect objects in images.

    An image that cannot be used gives a prediction with an `error`, and the others go on.

    Args:
        model: a push destination, a detector folder, a SavedModel's folder or a .tflite file.
        images: image files, or pixels, uint8 [H, W, 3], RGB.
        output: folder for a picture and a JSON file of each image; None: nothing is written.
        min_score: detections below it are left out.
        trust: run a SavedModel even if its graph does more than compute, such as reading files.

    Returns:
        One prediction an image, in their order.

    Raises:
        ConfigError: when `min_score` is no number, or `output` is the folder of an image.
        ModelError: when the model cannot be run.
        DataError: when not one of the images could be used.
    """
    from detection_core.tasks.predict import predict as run

    return run(
        os.fspath(model),
        [os.fspath(image) if isinstance(image, str | os.PathLike) else image for image in images],
        _text(output),
        min_score,
        trust=trust,
    )


def _text(path: Path | None) -> str:
    return "" if path is None else os.fspath(path)


def _config(config: Path | TrainEvalPipelineConfig) -> TrainEvalPipelineConfig:
    return load_config(config) if isinstance(config, str | os.PathLike) else config


def _checked(config: Path | TrainEvalPipelineConfig, examples: Path | None) -> CheckedConfig:
    """Return a config to train by, checked once: that of a file where it is read, as its lines are known."""
    from detection_core.config.check import check_pipeline_config
    from detection_core.config.load import load_checked_config

    if isinstance(config, str | os.PathLike):
        return _reading(load_checked_config(os.fspath(config)), examples, split="train")
    return check_pipeline_config(_reading(config, examples, split="train"))


def _stored_config(model: str) -> TrainEvalPipelineConfig:
    """Return the config inside a detector folder, which has to be one."""
    from detection_core.artifacts.detector import PIPELINE_CONFIG, extra_file, read_extra
    from detection_core.config.load import parse_pipeline_config

    return parse_pipeline_config(read_extra(model, PIPELINE_CONFIG), where=extra_file(model, PIPELINE_CONFIG))


def _reading(config: Config, examples: Path | None, *, split: str, eval_split: str = "eval") -> Config:
    """Return a config that reads a folder of examples, where one is given.

    Args:
        config: left as it is.
        examples: folder as ExampleGen writes it.
        split: what is read now, and has to be whole.
        eval_split: what `eval_input_reader` names.

    Raises:
        DataError: when something of the split is missing.
    """
    if examples is None:
        return config
    from detection_core.config.input_paths import point_at_examples
    from detection_core.tasks.examples import check_split

    folder = os.fspath(examples)
    check_split(folder, split)
    return point_at_examples(config, folder, eval_split=eval_split)
