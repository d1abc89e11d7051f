"""The table of detector families, with one record per family.

Nothing here imports TensorFlow, so that a config can be checked without it. A family's record is imported
when it is first used, and the record's functions import their dependencies when called.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from detection_core.errors import ConfigError, ExportError, ModelError

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf
    import tf_keras

    from detection_core.allowed_values import Option
    from detection_core.artifacts.quantization import QuantizationOptions
    from detection_core.artifacts.tflite_metadata import BoxDecoding
    from detection_core.detectors.base import Detector
    from detection_core.detectors.checkpoint_names import CheckpointNames
    from detection_core.detectors.quantization import QuantizedDetector
    from detection_core.detectors.rules import Rules
    from detection_core.errors import Problem
    from detection_core.parts.anchors.choice import Chosen


def late(path: str, **given: Any) -> Callable[..., Any]:
    """Return a function that imports and calls `MODULE:FUNCTION`, because records need no TensorFlow.

    Write the path out in full: the fingerprint of a step's code finds modules by their names. `given` are
    keyword arguments of every call.
    """
    module, _, name = path.partition(":")

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **given, **kwargs)

    return call


Normalisation = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and std of an input, (pixel - mean) / std with pixels in 0..255; per channel, or one for all."""

LevelOutputs = tuple[list["tf.Tensor"], list["tf.Tensor"]]
"""Class outputs of each level, finest first, float32 [B, h, w, anchors * C], and box outputs [..., anchors *
4].
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FamilyDescription:
    """Description of a configured detector.

    Attributes:
        summary: the parts of the model in one line.
        rows: further lines as (name, text).
        parts: the configured parts of the model, for example head and losses; name to text.
        data: further values, JSON-ready.
    """

    summary: str
    rows: Iterable[tuple[str, str]] = ()
    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointSupport:
    """Support for starting from existing checkpoints.

    Attributes:
        names: returns the variable names in these checkpoints.
        named_extractors: feature extractors that TensorFlow 1 also had, with known checkpoint names.
        extractors: type of a feature extractor -> its entry, whose `backbone` has published weights.
    """

    names: Callable[[], CheckpointNames]
    named_extractors: tuple[str, ...] = ()
    extractors: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def backbone(self, extractor: str) -> str:
        """Return the backbone whose published weights an extractor can start from; "": unknown."""
        return self.extractors[extractor].backbone if extractor in self.extractors else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteOutputOptions:
    """Outputs of a TensorFlow Lite detector, for every family.

    Attributes:
        max_detections: maximum number of boxes.
        classes_per_detection: number of best classes reported per box.
        use_regular_nms: suppress class by class; off: boxes of all classes suppress each other.
        form: of `allowed_values.TFLITE_FORMS`.
    """

    max_detections: int
    classes_per_detection: int
    use_regular_nms: bool
    form: str = "post_process"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteExport:
    """TensorFlow Lite export of a family's detectors.

    Attributes:
        problems: (message of the arm, its field path) -> features that the file does not support.
        function: (detector, its config, output options, whether the network's outputs will be integers) -> a
            concrete function. Its input is one image, `input` float32 [1, H, W, 3]. Its outputs are the four
            of `exporters.signatures.TFLITE_OUTPUTS`, in that order, or those of the form.
        normalisation: detector -> mean and std of each channel; the input is (pixel - mean) / std.
        decoding: (detector, its config, output options) -> how to decode the outputs of a file without
            post-processing; None: the family has no such files.
    """

    problems: Callable[[Any, str], Iterable[Problem]]
    function: Callable[[Detector, Any, TFLiteOutputOptions, bool], Any]
    normalisation: Callable[[Detector], Normalisation]
    decoding: Callable[[Detector, Any, TFLiteOutputOptions], BoxDecoding] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationSupport:
    """Quantization of a family's detectors.

    Attributes:
        rewrite: (trained float detector, options, step variable or None) -> the rewritten detector; its
            ranges are set by `calibrate`.
    """

    rewrite: Callable[[Detector, QuantizationOptions, tf.Variable | None], QuantizedDetector]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorFit:
    """Anchors fitted to the boxes of a data set.

    Attributes:
        overrides: field path to value; empty if the config's anchors were the best candidate.
        default: fraction of boxes that the config's anchors match, at an IoU of 0.5.
        fitted: fraction that the chosen anchors match.
        anchors: number of anchors per image with the chosen settings.
    """

    overrides: Mapping[str, Any]
    default: float
    fitted: float
    anchors: int

    @classmethod
    def of(cls, chosen: Chosen, where: str) -> AnchorFit:
        """Convert chosen anchors to overrides of the message at a field path."""
        overrides = {f"{where}.{name}": value for name, value in chosen.changes.items()}
        return cls(overrides=overrides, default=chosen.default, fitted=chosen.fitted, anchors=chosen.anchors)


class FitAnchors(Protocol):
    """A function that fits anchors to boxes."""

    def __call__(self, message: Any, where: str, boxes: np.ndarray, *, keep_count: bool) -> AnchorFit | None:
        """Choose the anchors' sizes and ratios; None if they cannot be changed.

        The message is checked. Boxes are float [N, 4], normalised to the network's input. `keep_count` keeps
        the number of anchors per location.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorSupport:
    """Fixed anchors that follow from the config, without building a network.

    Attributes:
        boxes: (message of the arm, its field path) -> float32 [A, 4], normalised to the network's input, not
            clipped: the anchors in the detector's order. It may import TensorFlow. None: images differ in
            size.
        fit: chooses sizes and ratios for the boxes of a data set, without TensorFlow; None: they cannot be
            changed.
    """

    boxes: Callable[[Any, str], np.ndarray | None]
    fit: FitAnchors | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """The record of a detector family.

    Functions that check a config run without TensorFlow; `build` and `describe` may import it when called.
    "Message" is the message of the arm of `model`, for example `Ssd`.

    Attributes:
        name: the arm of the `model` message that configures it, or the `name` of its `experimental_model`.
        build: (message, its field path, seed) -> detector. The message is checked; the seed sets the initial
            weights, None makes them zeros. A keyword `channels` is passed for images that have more than 3.
        describe: (message, detector) -> the description that `validate` prints.
        rules: name of a message type that only this family has, for example `Ssd` -> its rules.
        settings: message -> name to value of all settings, with defaults of its named network; None: its
            messages name no networks.
        loss_names: name of a part of the loss -> its short name in progress lines and charts.
        extractor_types: allowed values of `feature_extractor.type`, for an arm that has one.
        options: name -> option that `experimental_model.options` may set.
        input_size: message -> rows and columns to which images are resized if the config has no
            `image_resizer`. None: the config must have one.
        other_sizes: whether an `image_resizer` may give other rows and columns than `input_size`.
        problems: (message, path) -> problems of the message beyond its `Rules`.
        size_problems: (message, path, rows and columns of the network's input) -> parts that exceed the
            memory limits.
        keypoints: message -> number of keypoints per object in training, and the field that sets it. The
            field path starts below the message. 0: the label map defines the number. None: keypoints are not
            trained.
        masks: message -> whether the detector finds masks.
        checkpoints: support for starting from existing checkpoints; None: none.
        anchors: the fixed anchors and how to fit them; None: it has none, or others for every image.
        tflite: TensorFlow Lite export; None: not supported.
        quantization: quantization support; None: not supported.
        level_outputs: (detector, images) -> the network's outputs in inference mode. Images are float32 [B,
            H, W, 3], normalised as the backbone expects. None: it has no fixed anchors on several levels.
        with_network: (detector, network) -> the same detector with the rewritten network, which has the same
            inputs and outputs. None: it is not a single network.
    """

    name: str
    build: Callable[..., Detector]
    describe: Callable[[Any, Detector], FamilyDescription]
    loss_names: Mapping[str, str]
    rules: Mapping[str, Rules] = dataclasses.field(default_factory=dict)
    settings: Callable[[Any], Mapping[str, Any]] | None = None
    extractor_types: Collection[str] = ()
    options: Mapping[str, Option] = dataclasses.field(default_factory=dict)
    input_size: Callable[[Any], tuple[int, int] | None] = lambda message: None
    other_sizes: bool = False
    problems: Callable[[Any, str], Iterable[Problem]] = lambda message, path: ()
    size_problems: Callable[[Any, str, tuple[int, int]], Iterable[Problem]] = lambda message, path, size: ()
    keypoints: Callable[[Any], tuple[int, str] | None] = lambda message: None
    masks: Callable[[Any], bool] = lambda message: False
    checkpoints: CheckpointSupport | None = None
    anchors: AnchorSupport | None = None
    tflite: TFLiteExport | None = None
    quantization: QuantizationSupport | None = None
    level_outputs: Callable[[Any, tf.Tensor], LevelOutputs] | None = None
    with_network: Callable[[Any, tf_keras.Model], Detector] | None = None

    def require_checkpoint_names(self) -> CheckpointNames:
        """Return the names of its variables in checkpoints; ModelError when it starts from none."""
        if self.checkpoints is None:
            advice = "train without fine_tune_checkpoint, or from a detector folder"
            found = self._lacking("a family whose checkpoints can be read", "checkpoints", advice)
            raise ModelError(found, where="model")
        return self.checkpoints.names()

    def require_tflite(self) -> TFLiteExport:
        """Return its TensorFlow Lite export. Raises ExportError when the family has none."""
        if self.tflite is None:
            raise ExportError(no_tflite(self.name), where="model")
        return self.tflite

    def require_quantization(self) -> QuantizationSupport:
        """Return its quantization support. Raises ConfigError when the family has none."""
        if self.quantization is None:
            advice = "leave graph_rewriter out, and export with formats=float32 where it converts at all"
            found = self._lacking("a model that can be quantized", "quantization", advice)
            raise ConfigError(found, where="graph_rewriter")
        return self.quantization

    def require_level_outputs(self) -> Callable[[Any, tf.Tensor], LevelOutputs]:
        """Return the function that runs a network without post-processing; ExportError when it has none."""
        if self.level_outputs is None:
            what, advice = "a detector with anchors on fixed levels", "export with other signatures"
            raise ExportError(self._lacking(what, "level_outputs", advice), where="model")
        return self.level_outputs

    def require_with_network(self) -> Callable[[Any, tf_keras.Model], Detector]:
        """Return the function that replaces a network; ModelError when the detector has several."""
        if self.with_network is None:
            what, advice = "a detector of one network", "train it at one size"
            raise ModelError(self._lacking(what, "with_network", advice), where="model")
        return self.with_network

    def _lacking(self, what: str, capability: str, advice: str) -> str:
        return f"expected {what}, {_having(capability)}, found {self.name}; {advice}"


FAMILIES: dict[str, str | Family] = {
    "ssd": "detection_core.families.ssd.family",
    "efficientdet": "detection_core.families.efficientdet.family",
    "center_net": "detection_core.families.center_net.family",
    "faster_rcnn": "detection_core.families.faster_rcnn.family",
}
"""Name to record, or to the module that defines it as `FAMILY`."""


def register_family(family: Family) -> None:
    """Register a family from outside the package.

    A config names it by `experimental_model { name: "NAME" }`. Its fields are `num_classes`, `image_resizer`,
    and `options` for the rest. A family named after an unused arm of `model` is configured by that arm's
    fields instead.

    Raises:
        ValueError: when the name is taken.
    """
    if family.name in FAMILIES:
        raise ValueError(f"expected the name of a new family, found {family.name!r}, which there is")
    FAMILIES[family.name] = family


def family_name(model: Any) -> str:
    """Return the family name in a `model` message; "" if it has none."""
    arm = model.WhichOneof("model")
    return str(model.experimental_model.name if arm == "experimental_model" else arm or "")


def model_message(model: Any) -> tuple[Any, str]:
    """Return the message of the arm that is set, and its field path; None and `model` if none is set."""
    arm = model.WhichOneof("model")
    return (getattr(model, arm), f"model.{arm}") if arm else (None, "model")


def extractor_type(message: Any) -> str:
    """Return the `feature_extractor.type` of an arm's message; "" if it has none."""
    return str(getattr(getattr(message, "feature_extractor", None), "type", ""))


def find_family(model: Any) -> Family | None:
    """Return the family that a `model` message configures; None if the name is unknown."""
    name = family_name(model)
    return _load(name) if name in FAMILIES else None


def families() -> list[Family]:
    """Return all families."""
    return [_load(name) for name in FAMILIES]


def extractor_types() -> set[str]:
    """Return the allowed values of `feature_extractor.type` in all families."""
    return {name for family in families() for name in family.extractor_types}


def _load(name: str) -> Family:
    entry = FAMILIES[name]
    if not isinstance(entry, str):
        return entry
    family = importlib.import_module(entry).FAMILY
    if not isinstance(family, Family):
        raise TypeError(f"expected a Family as {entry}.FAMILY, found {type(family).__name__}")
    return family


def family_of(model: Any) -> Family:
    """Return the family that a `model` message configures. Raises ConfigError when the name is unknown."""
    family = find_family(model)
    if family is None:
        raise ConfigError(
            f"expected {' or '.join(FAMILIES)}, found {family_name(model) or 'none'}; set one", where="model"
        )
    return family


def no_tflite(name: str) -> str:
    """Return the error message for a family without TensorFlow Lite export."""
    return f"expected a model that converts to TensorFlow Lite, {_having('tflite')}, found {name}"


def _having(capability: str) -> str:
    return " or ".join(family.name for family in families() if getattr(family, capability) is not None)
