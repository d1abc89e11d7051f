"""The families of detectors: one record a family, and the table of them.

Nothing here imports TensorFlow: a family's record is read from its module when it is first asked for, and the
record's functions import what they need when they are called, so that a config can be checked without it.
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
    from detection_core.artifacts.tflite_metadata import BoxDecoding
    from detection_core.detectors.base import Detector
    from detection_core.detectors.checkpoint_names import CheckpointNames
    from detection_core.detectors.quantization import QuantizationOptions, QuantizedDetector
    from detection_core.detectors.rules import Rules
    from detection_core.errors import Problem
    from detection_core.parts.anchors.choice import Chosen


def late(path: str) -> Callable[..., Any]:
    """Return a function that imports another one at its first call, as records need no TensorFlow.

    Args:
        path: of the other, `MODULE:FUNCTION`, written out, as the fingerprint of a step's code finds modules
            by their names.
    """
    module, _, name = path.partition(":")

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    return call


Normalisation = tuple[tuple[float, ...], tuple[float, ...]]

LevelOutputs = tuple[list["tf.Tensor"], list["tf.Tensor"]]
"""Class outputs of each level, finest first, float32 [B, h, w, anchors * C], and box outputs,
[B, h, w, anchors * 4]."""


class FamilyDescription(Protocol):
    """A family's description of a configured detector: a dataclass of fields for JSON."""

    @property
    def parts(self) -> Mapping[str, str]:
        """What the config chose for the model's parts, such as head and losses; name to text."""

    def summary(self) -> str:
        """Name the parts of the model in a line."""

    def rows(self) -> list[tuple[str, str]]:
        """Return further lines of the description, each with its name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointSupport:
    """How detectors of a family start from checkpoints of the field.

    Attributes:
        names: gives how these checkpoints name its variables.
        named_extractors: feature extractors that TensorFlow 1 had, so that the names in its checkpoints are
            known.
        backbone: type of a feature extractor -> its backbone, whose published weights it can start from; "":
            none is known.
    """

    names: Callable[[], CheckpointNames]
    named_extractors: tuple[str, ...] = ()
    backbone: Callable[[str], str] = lambda extractor: ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteOutputOptions:
    """What a TensorFlow Lite detector gives, of any family that becomes one.

    Attributes:
        max_detections: boxes that it keeps.
        classes_per_detection: best classes that each box is reported with.
        use_regular_nms: suppress class by class; off: boxes of all classes suppress each other.
        form: of `allowed_values.TFLITE_FORMS`.
    """

    max_detections: int
    classes_per_detection: int
    use_regular_nms: bool
    form: str = "post_process"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteExport:
    """How detectors of a family become TensorFlow Lite files.

    Attributes:
        problems: (message of the arm, its field path) -> what the file cannot hold.
        function: (detector, its config, what to give, whether the network's outputs are going to be integers)
            -> a concrete function from one image, `input` float32 [1, H, W, 3], to the four
            outputs of `exporters.signatures.TFLITE_OUTPUTS`, in that order, or to those of the form.
        normalisation: detector -> mean and std of each channel with which (pixel - mean) / std is that
            input.
        decoding: (detector, its config, what to give) -> how the outputs of a file without post-processing
            are decoded.
    """

    problems: Callable[[Any, str], Iterable[Problem]]
    function: Callable[[Detector, Any, TFLiteOutputOptions, bool], Any]
    normalisation: Callable[[Detector], Normalisation]
    decoding: Callable[[Detector, Any, TFLiteOutputOptions], BoxDecoding]


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizationSupport:
    """How detectors of a family are quantized.

    Attributes:
        rewrite: (trained float detector, options, count of updates or None) -> the rewritten detector; its
            ranges wait for `calibrate`.
    """

    rewrite: Callable[[Detector, QuantizationOptions, tf.Variable | None], QuantizedDetector]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorFit:
    """Anchors chosen by the boxes of a data set.

    Attributes:
        overrides: field path to value; empty where the config's own anchors are the best that were tried.
        default: part of the boxes that the config's own anchors match, at an intersection over union of 0.5.
        fitted: part that the chosen ones match.
        anchors: boxes that are then predicted for one image.
    """

    overrides: Mapping[str, Any]
    default: float
    fitted: float
    anchors: int

    @classmethod
    def of(cls, chosen: Chosen, where: str) -> AnchorFit:
        """Return what was chosen for the message at a field path."""
        overrides = {f"{where}.{name}": value for name, value in chosen.changes.items()}
        return cls(overrides=overrides, default=chosen.default, fitted=chosen.fitted, anchors=chosen.anchors)


class FitAnchors(Protocol):
    """Chooses anchors by boxes."""

    def __call__(self, message: Any, where: str, boxes: np.ndarray, *, keep_count: bool) -> AnchorFit:
        """Choose the anchors' sizes and ratios.

        Args:
            message: of the arm, checked.
            where: its field path.
            boxes: float [N, 4], normalised to the network's input.
            keep_count: as many anchors at each place as there are.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorSupport:
    """The fixed anchors of a family's detectors, known by the config alone: no network is built.

    Attributes:
        boxes: (message of the arm, its field path) -> float32 [A, 4], normalised to the network's input, not
            clipped: what the detector matches objects with, in its order. It may import TensorFlow.
        fit: chooses sizes and ratios by the boxes of a data set, without TensorFlow; None: they are fixed.
    """

    boxes: Callable[[Any, str], np.ndarray]
    fit: FitAnchors | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """A family of detectors: everything that is known of it, in one record.

    The fields that check a config are called without TensorFlow; `build` and `describe` may import it when
    they are called. "Message" is the one of the arm of `model`, such as `Ssd`.

    Attributes:
        name: the arm of the `model` message that configures it, or the `name` of its `experimental_model`.
        build: (message, its field path, seed) -> detector. The message is checked; the seed gives the first
            weights, None makes them zeros.
        describe: (message, detector) -> what `validate` prints of it.
        rules: name of a message type that only this family has, such as `Ssd` -> its rules.
        settings: message -> name to value of all that it sets and of all that its named network has for the
            rest; None: its messages name no networks.
        loss_names: name of a part of the loss -> its short name in progress lines and charts.
        extractor_types: what `feature_extractor.type` may say, for an arm that has one.
        options: name -> option that `experimental_model.options` may set.
        input_size: message -> rows and columns of the network's input where the config has no
            `image_resizer`; images are then resized to them. None: the config has to have one.
        other_sizes: whether an `image_resizer` may give other rows and columns than `input_size`.
        problems: (message, path) -> what is wrong with the message beyond its `Rules`.
        size_problems: (message, path, rows and columns of the network's input) -> what needs more memory
            than there can be.
        keypoints: message -> keypoints of an object that the detector is trained on, and the field below the
            message that sets them; None: it is not trained on any.
        masks: message -> whether the detector finds masks.
        checkpoints: how it starts from checkpoints of the field; None: it starts from none.
        anchors: which anchors objects are matched with, and how they are chosen; None: it has none, or others
            for every image.
        tflite: how it becomes a TensorFlow Lite file; None: it does not.
        quantization: how it is quantized; None: it is not.
        level_outputs: (detector, float32 [B, H, W, 3], normalised as the backbone expects) -> what its
            network alone gives in inference form; None: it has no fixed anchors on several levels.
        with_network: (detector, a rewritten network with the same inputs and outputs) -> the same detector
            around it; None: it is not one network that it does everything with.
    """

    name: str
    build: Callable[[Any, str, int | None], Detector]
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
        """Return how checkpoints of the field name its variables.

        Raises:
            ModelError: when it starts from none.
        """
        if self.checkpoints is None:
            advice = "train without fine_tune_checkpoint, or from a detector folder"
            found = self._lacking("a family whose checkpoints can be read", "checkpoints", advice)
            raise ModelError(found, where="model")
        return self.checkpoints.names()

    def require_tflite(self) -> TFLiteExport:
        """Return how it becomes a TensorFlow Lite file.

        Raises:
            ExportError: when it does not.
        """
        if self.tflite is None:
            raise ExportError(no_tflite(self.name), where="model")
        return self.tflite

    def require_quantization(self) -> QuantizationSupport:
        """Return how it is quantized.

        Raises:
            ConfigError: when it is not.
        """
        if self.quantization is None:
            advice = "leave graph_rewriter out, and export with formats=float32 where it converts at all"
            found = self._lacking("a model that can be quantized", "quantization", advice)
            raise ConfigError(found, where="graph_rewriter")
        return self.quantization

    def require_level_outputs(self) -> Callable[[Any, tf.Tensor], LevelOutputs]:
        """Return what runs a detector's network alone.

        Raises:
            ExportError: when there are no fixed anchors on several levels.
        """
        if self.level_outputs is None:
            what, advice = "a detector with anchors on fixed levels", "export with other signatures"
            raise ExportError(self._lacking(what, "level_outputs", advice), where="model")
        return self.level_outputs

    def require_with_network(self) -> Callable[[Any, tf_keras.Model], Detector]:
        """Return what puts a rewritten network into a detector.

        Raises:
            ModelError: when it is not one network that it does everything with.
        """
        if self.with_network is None:
            what, advice = "a detector of one network", "train it at one size"
            raise ModelError(self._lacking(what, "with_network", advice), where="model")
        return self.with_network

    def _lacking(self, what: str, capability: str, advice: str) -> str:
        return f"expected {what}, {_having(capability)}, found {self.name}; {advice}"


FAMILIES: dict[str, str | Family] = {
    "ssd": "detection_core.families.ssd.family",
    "efficientdet": "detection_core.families.efficientdet.family",
}
"""Name to record, or to the module that has it as `FAMILY`."""


def register_family(family: Family) -> None:
    """Add a family from outside of this package.

    A config names it by `experimental_model { name: "NAME" }`, which has the fields that every family needs,
    `num_classes` and `image_resizer`, and `options` for what else there is to set. A family that is called
    after an arm of `model` which no family has is configured by that arm's fields instead.

    Args:
        family: its record.

    Raises:
        ValueError: when there is one of that name.
    """
    if family.name in FAMILIES:
        raise ValueError(f"expected the name of a new family, found {family.name!r}, which there is")
    FAMILIES[family.name] = family


def unregister_family(name: str) -> None:
    """Forget a family from outside, as tests do; nothing happens where it is not known."""
    if isinstance(FAMILIES.get(name), Family):
        del FAMILIES[name]


def family_name(model: Any) -> str:
    """Return what a `model` message names; "" where it names nothing."""
    arm = model.WhichOneof("model")
    return str(model.experimental_model.name if arm == "experimental_model" else arm or "")


def model_message(model: Any) -> tuple[Any, str]:
    """Return the message of the arm that is set, and its field path; None and `model` where none is."""
    arm = model.WhichOneof("model")
    return (getattr(model, arm), f"model.{arm}") if arm else (None, "model")


def extractor_type(message: Any) -> str:
    """Return the `feature_extractor.type` of an arm's message; "" where it has none."""
    return str(getattr(getattr(message, "feature_extractor", None), "type", ""))


def find_family(model: Any) -> Family | None:
    """Return the family that a `model` message configures; None where none has its name."""
    name = family_name(model)
    return _load(name) if name in FAMILIES else None


def families() -> list[Family]:
    """Return every family that there is."""
    return [_load(name) for name in FAMILIES]


def extractor_types() -> set[str]:
    """Return what `feature_extractor.type` may say, in any family."""
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
    """Return the family that a `model` message configures.

    Raises:
        ConfigError: when no family has its name.
    """
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
    """List the families that can do something."""
    return " or ".join(family.name for family in families() if getattr(family, capability) is not None)
