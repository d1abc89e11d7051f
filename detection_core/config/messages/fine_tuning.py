"""Find contradictions between the train_config fields for the initial checkpoint."""

from collections.abc import Callable, Iterator

from detection_core.config.legacy.tensorflow_1 import COUNTERPARTS, WITHOUT_COUNTERPART
from detection_core.config.suggestions import near_names
from detection_core.config.text.text_proto import BACKSLASHES
from detection_core.detectors.family import CheckpointSupport
from detection_core.errors import ConfigError, Problem
from detection_core.protos.train_pb2 import CheckpointVersion, TrainConfig
from detection_core.zoo.keras_backbones import IMAGENET, PUBLISHED_BACKBONES
from detection_core.zoo.networks import find_model
from detection_core.zoo.starting_points import ZOO, is_named

# Values of fine_tune_checkpoint_type by checkpoint format: object-based, name-based.
OBJECT_TYPES = ("classification", "detection", "full")
NAMED_TYPES = ("classification", "detection")
# Values of fine_tune_checkpoint_type by published weights: of a detector, of a classifier.
DETECTOR_TYPES = ("detection", "full")
CLASSIFIER_TYPES = ("classification",)

_CHECKPOINT = "train_config.fine_tune_checkpoint"
_TYPE = "train_config.fine_tune_checkpoint_type"
_VERSION = "train_config.fine_tune_checkpoint_version"
_HEADS = "train_config.load_all_detection_checkpoint_vars"


def fine_tuning_problems(
    train: TrainConfig, extractor: str, support: CheckpointSupport | None
) -> Iterator[Problem]:
    """Find settings that do not fit the given checkpoint version.

    The extractor is "" if no family builds the model; `support` is None without checkpoints.
    """
    yield from _type(train.fine_tune_checkpoint_type)
    if not train.fine_tune_checkpoint:
        return
    if is_named(train.fine_tune_checkpoint):
        yield from _published(train, support.backbone if support else lambda extractor: "", extractor)
        return
    yield from _path(train.fine_tune_checkpoint)
    if train.fine_tune_checkpoint_version == CheckpointVersion.V1:
        # Unknown families and removed extractors are reported separately.
        if extractor and extractor not in WITHOUT_COUNTERPART:
            named = support.named_extractors if support else ()
            yield from _named(train, COUNTERPARTS.get(extractor, extractor), named)
    elif train.fine_tune_checkpoint_version != CheckpointVersion.V2:
        yield Problem(
            path=_VERSION,
            message="expected V1, a checkpoint of TensorFlow 1, or V2, one of TensorFlow 2, found UNKNOWN",
        )
    elif train.load_all_detection_checkpoint_vars:
        message = (
            "expected false, as it is for checkpoints of TensorFlow 1, found true; set"
            ' fine_tune_checkpoint_type: "full" instead'
        )
        yield Problem(path=_HEADS, message=message)


def _type(kind: str) -> Iterator[Problem]:
    if not kind or kind in OBJECT_TYPES:
        return
    near = near_names(kind, OBJECT_TYPES)
    hint = f"; did you mean {near[0]}?" if near else ""
    if kind == "fine_tune":
        hint = ', which no detector of the field supports; "full" restores the heads, too'
    yield Problem(path=_TYPE, message=f"expected one of {', '.join(OBJECT_TYPES)}, found {kind!r}{hint}")


def _published(train: TrainConfig, backbone_of: Callable[[str], str], extractor: str) -> Iterator[Problem]:
    """Find published weights that do not exist, belong to another network, or have the wrong type."""
    start = train.fine_tune_checkpoint
    types = DETECTOR_TYPES if start.startswith(ZOO) else CLASSIFIER_TYPES
    if train.fine_tune_checkpoint_type not in ("", *types):
        found = train.fine_tune_checkpoint_type
        message = f"expected {' or '.join(types)} with {start:.80}, found {found:.80}; correct or remove it"
        yield Problem(path=_TYPE, message=message)
    if train.HasField("fine_tune_checkpoint_version") and (
        train.fine_tune_checkpoint_version != CheckpointVersion.V2
    ):
        yield Problem(
            path=_VERSION, message=f"expected V2 or nothing with {start:.80}, found another version"
        )
    if train.load_all_detection_checkpoint_vars:
        yield Problem(
            path=_HEADS,
            message=f'expected false with {start:.80}, found true; "full" as the type takes heads',
        )
    if backbone := backbone_of(extractor):
        yield from _network(start, backbone_of, backbone)


def _network(start: str, backbone_of: Callable[[str], str], backbone: str) -> Iterator[Problem]:
    try:
        if start.startswith(ZOO):
            own = backbone_of(find_model(start.removeprefix(ZOO)).extractor)
        elif start == IMAGENET:
            own = next((known.backbone for known in PUBLISHED_BACKBONES if known.backbone == backbone), "")
        else:
            message = f"expected {IMAGENET} alone, as the config names the backbone, found {start:.80}"
            yield Problem(path=_CHECKPOINT, message=message)
            return
    except ConfigError as error:
        yield Problem(path=_CHECKPOINT, message=error.message)
        return
    if own != backbone:
        message = (
            f"expected weights of the backbone {backbone}, as feature_extractor.type has it, found"
            f" {f'those of {own}' if own else 'none published'} in {start:.80}; change one of them"
        )
        yield Problem(path=_CHECKPOINT, message=message)


def _path(path: str) -> Iterator[Problem]:
    r"""Find a Windows path that lost its backslashes in text format: "C:\temp" contains a tab."""
    if any(ord(character) < ord(" ") for character in path):
        message = f"expected a path, found {path!r}, with control characters; {BACKSLASHES}"
        yield Problem(path=_CHECKPOINT, message=message)


def _named(train: TrainConfig, extractor: str, named_extractors: tuple[str, ...]) -> Iterator[Problem]:
    """Check a checkpoint of TensorFlow 1, the default when a config names no version."""
    if extractor not in named_extractors:
        message = (
            f"expected V2, as TensorFlow 1 had no {extractor}, found V1 (the default of"
            " the field); set fine_tune_checkpoint_version: V2 and use a checkpoint of TensorFlow 2"
        )
        yield Problem(path=_VERSION, message=message)
        return
    kind = train.fine_tune_checkpoint_type
    if kind in OBJECT_TYPES and kind not in NAMED_TYPES:
        message = (
            f"expected {' or '.join(NAMED_TYPES)} with a checkpoint of TensorFlow 1, found {kind!r}; set"
            ' "detection" and load_all_detection_checkpoint_vars: true, or'
            " fine_tune_checkpoint_version: V2 if the checkpoint is one of TensorFlow 2"
        )
        yield Problem(path=_TYPE, message=message)
    detection = kind == "detection" or (not kind and train.from_detection_checkpoint)
    if train.load_all_detection_checkpoint_vars and not detection:
        message = (
            "expected false, as a classifier has no heads of a detector, found true; set"
            ' fine_tune_checkpoint_type: "detection"'
        )
        yield Problem(path=_HEADS, message=message)
