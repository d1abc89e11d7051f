"""Layout of a detector folder, and finding the detectors that a path of a model names, without TensorFlow.

A path of a model names a detector folder, a SavedModel, a .tflite file or a push destination. It may also
name a folder with an ensemble's `ensemble.json`.

A detector folder holds the SavedModel `Format-Serving/`. Its `assets.extra/detflow/` holds the files that
training, quantization and conversion need. A published version is a copy of `Format-Serving`, so every reader
accepts either folder.
"""

import dataclasses
import os
from typing import Any

from detection_core.artifacts import quantization
from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.published import IN_SERVICE, is_destination, read_deployment
from detection_core.errors import ContractError
from detection_core.storage import files

SERVING = "Format-Serving"
SAVED_MODEL = "saved_model.pb"
EXTRA = "assets.extra/detflow"
PIPELINE_CONFIG = "pipeline.config"
"""A TrainEvalPipelineConfig as text, in a config artifact, a model run and a detector folder."""
LABEL_MAP = "label_map.pbtxt"
"""A StringIntLabelMap as text, beside examples and in a detector folder."""
MODEL_INFO = "model.json"
CHECKPOINT = "checkpoint/ckpt-0"
QUANTIZATION = quantization.QUANTIZATION.name

KINDS = ("float", "quantized")
_TFLITE = ".tflite"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DetectorInfo:
    """The content of `model.json`.

    Attributes:
        kind: `float`, or `quantized` for a network with fake quantization.
        name: the detector's name, the config's model family.
        parameters: number of trainable parameters.
        num_classes: classes without background.
        input_size: rows and columns of the network's input, pixels; 0 if variable.
        extra: further properties from the folder's writer, such as training steps and origin.
    """

    kind: str
    name: str
    parameters: int
    num_classes: int
    input_size: tuple[int, int]
    extra: dict[str, Any]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"expected kind one of {', '.join(KINDS)}, found {self.kind!r}")


def serving_dir(path: str) -> str:
    """Return the SavedModel's folder of a detector folder, its `Format-Serving`, or a published version.

    Raises:
        ContractError: when `path` holds no SavedModel.
    """
    for candidate in (path, files.join(path, SERVING)):
        if files.exists(files.join(candidate, SAVED_MODEL)):
            return candidate
    raise ContractError(
        f"expected a detector folder ({SERVING}/{SAVED_MODEL}) or a SavedModel, found neither;"
        " pass the folder that training, quantization or a push wrote",
        where=path,
    )


def holds_saved_model(path: str) -> bool:
    """Return whether a path is a detector folder or the folder of a SavedModel."""
    candidates = (path, files.join(path, SERVING))
    return any(files.exists(files.join(candidate, SAVED_MODEL)) for candidate in candidates)


def extra_file(path: str, name: str) -> str:
    """Return the path of a file such as `MODEL_INFO` in `assets.extra/detflow`, existing or not.

    Raises:
        ContractError: when there is no SavedModel.
    """
    return files.join(serving_dir(path), EXTRA, name)


def read_extra(path: str, name: str) -> str:
    """Return a text file of the detector's `assets.extra/detflow`.

    Raises:
        ContractError: when there is no SavedModel, another program wrote it, or the file is not text.
    """
    file = extra_file(path, name)
    if not files.exists(file):
        raise ContractError(
            f"expected {EXTRA}/{name} beside {SAVED_MODEL}, found none: detflow did not write the SavedModel,"
            " or assets were not copied; pass a detector folder with all its files",
            where=serving_dir(path),
        )
    try:
        return files.read_text(file)
    except UnicodeDecodeError as error:
        raise ContractError(
            f"expected text, found bytes that are none ({error}); write the detector again", where=file
        ) from error


MODEL = JsonFile(
    name=MODEL_INFO,
    content=DetectorInfo,
    writer="a training",
    remedy="write the detector again",
    version_key="format_version",
    indent=2,
    sort_keys=True,
)


def read_info(path: str) -> DetectorInfo:
    """Read the description of a detector folder (see `serving_dir`); unknown fields are ignored.

    Raises:
        ContractError: when it is not a detector folder, or this version cannot read it.
    """
    return MODEL.parse(read_extra(path, MODEL_INFO), extra_file(path, MODEL_INFO))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ensemble:
    """The content of ensemble.json.

    Attributes:
        detectors: detector folders, SavedModels or .tflite files; paths are relative to this file's folder.
        iou_threshold: least IoU at which boxes of two detectors are one object.
    """

    detectors: tuple[str, ...]
    iou_threshold: float


ENSEMBLE = JsonFile(
    name="ensemble.json",
    content=Ensemble,
    writer="`detflow predict` or `detflow evaluate` with several --model",
    remedy="name the detectors with --model again",
)


def members(path: str) -> tuple[str, ...]:
    """Return an ensemble's detectors in order; for any other path, the path itself."""
    found = find_ensemble(path)
    if found is None:
        return (path,)
    return tuple(
        p if files.is_remote(p) or os.path.isabs(p) else files.join(path, p) for p in found.detectors
    )


def find_ensemble(path: str) -> Ensemble | None:
    """Read an ensemble's folder; None if the path is not one."""
    return ENSEMBLE.find(path) if files.is_dir(path) else None


def find_extra(path: str, name: str) -> str | None:
    """Return the path of a file in the `assets.extra/detflow` of a model, of an ensemble's first detector.

    None if it has none, as a .tflite file and a SavedModel of another program.

    Raises:
        ContractError: when a folder holds no SavedModel.
    """
    detector = members(path)[0]
    file = extra_file(detector, name) if files.is_dir(detector) else ""
    return file if file and files.exists(file) else None


def find_model(path: str) -> str:
    """Return the model in a folder of models; any other path unchanged.

    A push destination gives its deployed version, a folder of TensorFlow Lite files its only file.

    Raises:
        ContractError: when nothing is deployed there, or the folder holds several TensorFlow Lite files.
    """
    if os.path.splitext(path)[1].lower() == _TFLITE or not files.is_dir(path) or holds_saved_model(path):
        return path
    if is_destination(path):
        version = read_deployment(path).version
        if version is None:
            raise ContractError("expected a deployed version, found none; publish one first", where=path)
        return files.join(path, IN_SERVICE, str(version))
    if find_ensemble(path):
        return path
    found = [name for name in files.list_entries(path)[1] if name.lower().endswith(_TFLITE)]
    if len(found) > 1:
        raise ContractError(
            f"expected one model, found {len(found)} {_TFLITE} files; pass one of them: {', '.join(found)}",
            where=path,
        )
    return files.join(path, found[0]) if found else path
