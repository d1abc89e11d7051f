"""Facts about the networks that are built here, from each family's `families/NAME/networks.yaml`.

A file has `parts`, texts that its kinds share, and `kinds`, each a config text that its networks have in
common. It also has `networks`, and `not_built`, published networks that are not built here. A `$name` in a
text is replaced by a value of the network or of its kind, or by a part. Parts may contain other parts. The
files are read when a network is first requested.
"""

import dataclasses
import difflib
import functools
import math
import string
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeVar

from detection_core.artifacts.json_values import decode, encode
from detection_core.bounded.plain_yaml import parse_yaml
from detection_core.errors import ConfigError, shorten

_N = TypeVar("_N", bound="Network")

Speed = Literal["fast", "balanced", "accurate"]
SPEEDS: tuple[Speed, ...] = ("fast", "balanced", "accurate")
Finding = Literal["boxes", "masks", "keypoints"]
FINDINGS: tuple[Finding, ...] = ("boxes", "masks", "keypoints")
"""What a detector finds: boxes, or masks or keypoints beside them."""

PUBLISHED_AT = "https://download.tensorflow.org/models/object_detection/tf2"
"""Folder of the archives' folders, which are named by date; an archive is named after its model."""
ARCHIVE_SUFFIX = ".tar.gz"
PAGE = "https://github.com/tensorflow/models/blob/master/research/object_detection/g3doc/tf2_detection_zoo.md"
"""Page with the published names, times and mAP."""
CONFIGS = "https://github.com/tensorflow/models/blob/master/research/object_detection/configs/tf2"
"""Folder of the published configs; an archive also contains the config that its weights were trained with."""
# Maximum parameters of each size class; anything above is large.
_SIZE_CLASSES = ((8_000_000, "small"), (40_000_000, "medium"))
_DEPTH = 8  # maximum nesting of parts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """The properties that several networks share.

    Attributes:
        text: the `model` section of their pipeline.config, and what is read and measured besides boxes.
        values: name to the text that replaces `$name`.
        weights: origin of further checkpoints, not fetched here, to start from: `automl`, `tensorflow_1`, or
            "".
        augmentation: the crop that they are trained with: its name, and its fields. An `output_size` is
            replaced by the network's.
        finds: one of `FINDINGS`.
        suggested: `detflow init` chooses among their published networks by itself.
        optimizer: the field of `train_config.optimizer` that they are trained with.
        optimizer_options: its fields besides the learning rate.
        rate: peak learning rate for each image of a batch, its maximum, and the quotient of peak and first
            rate; from trained weights.
        rate_from_scratch: the same from random weights.
        gradient_norm: maximum gradient norm when training from scratch; 0: no limit.
        small_batch: fields of the config that keep the statistics of the starting weights, for batches that
            are too small to normalise by.
        short_training: fields of the config that let moving statistics follow in a short training.
        keypoint_class: field of the config with the class whose keypoints are found.
    """

    text: str
    values: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)
    weights: str = ""
    augmentation: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    finds: str = "boxes"
    suggested: bool = False
    optimizer: str = "momentum_optimizer"
    optimizer_options: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: {"momentum_optimizer_value": 0.9}
    )
    rate: tuple[float, float, float] = (0.0025, 0.04, 10.0)
    rate_from_scratch: tuple[float, float, float] = (0.01, 0.08, 8.0)
    gradient_norm: float = 0.0
    small_batch: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    short_training: Mapping[str, float] = dataclasses.field(default_factory=dict)
    keypoint_class: str = ""

    @property
    def optimizer_path(self) -> str:
        """Return the field path of the optimizer in a pipeline.config."""
        return f"train_config.optimizer.{self.optimizer}"

    def cosine(
        self, batch_size: int, num_steps: int, warmup_steps: int, *, from_scratch: bool = False
    ) -> dict[str, float]:
        """Return the learning rate's schedule for a batch: fields of a cosine decay with a warm-up."""
        an_image, highest, times = self.rate_from_scratch if from_scratch else self.rate
        rate = min(an_image * batch_size, highest)
        steps = {"total_steps": num_steps, "warmup_steps": warmup_steps}
        return {"learning_rate_base": rate, "warmup_learning_rate": rate / times, **steps}

    def fill(self, num_classes: int | None = None, **values: str | int | float) -> str:
        """Return the text, in text format; `values` replace the kind's values.

        `num_classes` None leaves the field out.

        Raises:
            ValueError: for a name in the text that has no value, or parts that contain themselves.
        """
        classes = "" if num_classes is None else f"num_classes: {num_classes}"
        known, text = {**self.values, **values, "num_classes": classes}, self.text
        for _ in range(_DEPTH):
            if "$" not in text:
                return text
            try:
                text = string.Template(text).substitute(known)
            except KeyError as e:
                raise ValueError(f"expected a value of ${e.args[0]}, found none; add it") from e
        raise ValueError(f"expected parts in parts at most {_DEPTH} deep, found more; correct their names")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A detector to start from, its weights or its architecture.

    Attributes:
        name: in its family's file, unique across families.
        kind: its kind.
        extractor: its `feature_extractor.type`; "" if the family has none.
        speed: one of `SPEEDS`.
        side: height and width of the input that the other numbers refer to, pixels.
        parameters: numbers in all variables of a detector of 90 classes, moving statistics included;
            published EfficientDets also contain parts of the classifier.
        multiply_adds: of a detector of 90 classes for one image.
        multiple: rows and columns of its input are multiples of it.
        training_bytes: memory of a training step per pixel of a batch; 0: not measured.
        coco_map: published mAP on COCO 2017 val, percent; None: none is published for float weights.
        from_scratch: `detflow init` chooses it when there are no initial weights, with input size and anchors
            fitted to the data.
        values: name to text for the kind's placeholders.
    """

    name: str
    kind: Kind
    extractor: str = ""
    speed: str
    side: int
    parameters: int
    multiply_adds: int
    multiple: int = 32
    training_bytes: int = 0
    coco_map: float | None = None
    from_scratch: bool = False
    values: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)

    def text(self, num_classes: int | None = None, **values: str) -> str:
        """Return its config in text format; None leaves `num_classes` out, `values` replace its own."""
        side = {"height": self.side, "width": self.side}
        own = {**self.values, **values}
        return self.kind.fill(num_classes, name=self.name, extractor=self.extractor, **side, **own)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedModel(Network):
    """A detector of the TensorFlow 2 detection model zoo, trained on COCO 2017 with class ids up to 90.

    Its name is the published one, also of the archive and the folder in it.

    Attributes:
        coco_map: published mAP of the boxes on COCO 2017 val, percent; None: not published.
        shape_map: the same of the masks or keypoints; None for a detector of boxes.
        title: its name on the zoo's page.
        published: date of its archive, as in the address.
        published_ms: published time per image on the zoo's machine, milliseconds.
        folder: the folder in the archive; "": the detector's name.
        checkpoint: name of the checkpoint in the archive.
        config_file: its config in `CONFIGS`, without `.config`; "": it has none there. None: the detector's
            name.
        licence: of the weights and of the configuration.
    """

    coco_map: float | None = dataclasses.field()  # required here
    title: str
    published: str
    published_ms: int
    shape_map: float | None = None
    folder: str = ""
    checkpoint: str = "ckpt-0"
    config_file: str | None = None
    licence: str = "Apache-2.0"

    @property
    def config(self) -> str:
        """Return the address of its config in `CONFIGS`; "" if there is none."""
        name = self.name if self.config_file is None else self.config_file
        return name and f"{CONFIGS}/{name}.config"

    @property
    def augmentation(self) -> dict[str, dict[str, float]]:
        """Return `Kind.augmentation` for its input."""
        own = {"output_size": self.side}
        crops = self.kind.augmentation.items()
        return {name: {key: own.get(key, value) for key, value in crop.items()} for name, crop in crops}

    @property
    def archive(self) -> str:
        """Return the name of the archive's file."""
        return self.name + ARCHIVE_SUFFIX

    @property
    def address(self) -> str:
        """Return the URL of the archive."""
        return f"{PUBLISHED_AT}/{self.published}/{self.archive}"

    @property
    def most_bytes(self) -> int:
        """Return the maximum size of its archive in bytes; it holds each parameter twice, in 4 bytes each."""
        return (64 << 20) + 16 * self.parameters

    @property
    def size_class(self) -> str:
        """Return small, medium or large, by the number of parameters."""
        return next((name for most, name in _SIZE_CLASSES if self.parameters <= most), "large")


def list_all() -> tuple[Network, ...]:
    """Return the networks of all families, in the order of their files."""
    return tuple(_read_all().networks.values())


def list_networks() -> tuple[Network, ...]:
    """Return all networks from fast to accurate, by number of operations; ties list the model zoo's first."""

    def place(network: Network) -> tuple[int, int, bool]:
        speed = SPEEDS.index(network.speed)
        return speed, network.multiply_adds, not isinstance(network, PublishedModel)

    return tuple(sorted(list_all(), key=place))


def list_models() -> tuple[PublishedModel, ...]:
    """Return the published detectors that are built here, by family and then by size."""
    return tuple(network for network in list_all() if isinstance(network, PublishedModel))


def find_network(name: str) -> Network:
    """Return a network by its name. Raises ConfigError when the name is unknown, with similar names."""
    expected, advice = "a detector that is built here", "`detflow init --list-models` shows them"
    return _find(name, list_networks(), (expected, advice), "--model")


def find_model(name: str) -> PublishedModel:
    """Return a detector by the name of its archive or of its config; errors are as in `find_network`."""
    expected = "the name of a detector of the model zoo that is built here"
    where = f"zoo:{name}" if len(name) <= 80 else "zoo"
    name = name.removesuffix(ARCHIVE_SUFFIX)
    name = next((model.name for model in list_models() if name and model.config_file == name), name)
    if what := _read_all().not_built.get(name):
        raise ConfigError(f"expected {expected}, found {what}; `detflow zoo list` shows them", where=where)
    return _find(name, list_models(), (expected, "`detflow zoo list` shows them"), where)


def _find(name: str, networks: Iterable[_N], text: tuple[str, str], where: str) -> _N:
    known = {network.name: network for network in networks}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else text[1]
    raise ConfigError(f"expected {text[0]}, found {shorten(name)}; {hint}", where=where)


def nearest_model(
    input_size: tuple[int, int], *, speed: Speed = "balanced", finds: Finding = "boxes"
) -> PublishedModel:
    """Return the suggested detector of a speed with the nearest input size; on a tie, the more accurate one.

    If none of that speed finds masks or keypoints, the speed is not considered.

    Raises:
        ValueError: for an unknown speed, or an invalid size.
    """
    if speed not in SPEEDS or min(input_size) < 1:
        raise ValueError(f"expected one of {SPEEDS} and a size in pixels, found {speed!r}, {input_size}")
    side = math.sqrt(input_size[0] * input_size[1])
    suited = [model for model in list_models() if model.kind.suggested and model.kind.finds == finds]
    candidates = [model for model in suited if model.speed == speed] or suited

    def distance(model: PublishedModel) -> tuple[float, float]:
        return abs(math.log(model.side / side)), -(model.shape_map or model.coco_map or 0.0)

    return min(candidates, key=distance)


def find_kind(name: str) -> Kind:
    """Return a kind of networks by its name in its family's file; KeyError for an unknown name."""
    return _read_all().kinds[name]


class Networks(NamedTuple):
    """Kinds, networks that are built here, and what other published networks are, by name."""

    kinds: dict[str, Kind]
    networks: dict[str, Network]
    not_built: dict[str, str]


@functools.cache
def _read_all() -> Networks:
    known = Networks({}, {}, {})
    families = files("detection_core") / "families"
    for folder in sorted(families.iterdir(), key=lambda folder: folder.name):
        file = folder / "networks.yaml"
        if file.is_file():
            found = read_networks(file.read_text("utf-8"), str(file))
            known.kinds.update(found.kinds)
            known.networks.update(found.networks)
            known.not_built.update(found.not_built)
    return known


@dataclasses.dataclass(frozen=True, kw_only=True)
class _File:
    kinds: Mapping[str, Mapping[str, Any]]
    networks: Mapping[str, Mapping[str, Any]]
    parts: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)
    not_built: dict[str, str] = dataclasses.field(default_factory=dict)


def read_networks(text: str, where: str) -> Networks:
    """Read the text of a family's file; ValueError for a value of a wrong type, which it names.

    A test checks names, allowed values and placeholders of all files.
    """
    file: _File = decode(_File, parse_yaml(text, where))
    kinds: dict[str, Kind] = {}
    for name, entry in file.kinds.items():
        kind = decode(Kind, entry, f"kinds.{name}")
        kinds[name] = dataclasses.replace(kind, values={**file.parts, **kind.values})
    networks = {}
    for name, entry in file.networks.items():
        cls = PublishedModel if "published" in entry else Network
        values = {**entry, "name": name, "kind": encode(kinds[entry["kind"]])}
        networks[name] = decode(cls, values, f"networks.{name}")
    return Networks(kinds, networks, file.not_built)
