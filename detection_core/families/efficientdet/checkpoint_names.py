"""Names of a network's variables in google/automl's checkpoints.

Keys are those of object-based checkpoints with the network as root; names are those of name-based ones. The
order of the variables is also google/automl's.

The stem, its layers and the transposed convolutions of the segmentation head have no fixed names. They are
numbered per process: the first network has `stem/conv2d`, a second one `stem_1/conv2d_5`. google/automl
itself does not find these on restore.
"""

import collections
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf
import tf_keras

from detection_core.config.messages.extractors import LAST_BACKBONE_LEVEL
from detection_core.detectors.checkpoint_names import (
    CheckpointNames,
    FillableVariables,
    FineTuneOptions,
    Naming,
)
from detection_core.families.efficientdet.model import EfficientDetModel
from detection_core.families.efficientdet.settings import EfficientDetSettings
from detection_core.parts.layers import layer_names
from detection_core.training.checkpoint_variables import AVERAGED, OPTIMIZER_SLOT, escaped_child

_REGULARIZED = ("kernel", "weight")


class AutomlVariable(NamedTuple):
    """A variable and its names in checkpoints.

    Attributes:
        key: in an object-based checkpoint, without the suffix of its attribute.
        name: in a name-based checkpoint.
        variable: of the network.
    """

    key: str
    name: str
    variable: tf.Variable


class _Scope(NamedTuple):
    """Object path and name scope of the variables of one of our layers."""

    path: str
    name: str


def automl_variables(network: tf_keras.Model, settings: EfficientDetSettings) -> list[AutomlVariable]:
    """Name every variable of an unmodified network, in the order of google/automl's network."""
    layers = {layer.name: layer for layer in network.layers if layer.weights}
    found = []
    for ours, scope in _Names(settings, list(layers)).scopes():
        for layer in ours:
            if layer in layers:
                found += [_named(variable, layer, scope) for variable in layers.pop(layer).weights]
    if layers:
        raise ValueError(f"no name for layers {sorted(layers)}: the network is not one that is built here")
    return found


def regularized(variables: Iterable[AutomlVariable]) -> Iterator[AutomlVariable]:
    """Yield the variables with weight decay: kernels, including those of depthwise convolutions."""
    return (found for found in variables if found.key.endswith(_REGULARIZED))


def _named(variable: tf.Variable, layer: str, scope: _Scope) -> AutomlVariable:
    leaf = layer_names.parse_variable_name(variable).weight
    if layer.endswith("_pointwise") and leaf == "kernel":
        leaf = "pointwise_kernel"
    return AutomlVariable(f"{scope.path}/{leaf}", f"{scope.name}/{leaf}", variable)


def _both(name: str) -> tuple[str, ...]:
    """Return our layers for one of their convolutions: a plain one, or the halves of a separable one."""
    return name, f"{name}_depthwise", f"{name}_pointwise"


@dataclasses.dataclass(frozen=True)
class _Names:
    settings: EfficientDetSettings
    layers: Sequence[str]

    def scopes(self) -> Iterator[tuple[tuple[str, ...], _Scope]]:
        """Yield groups of our layers that share a scope, with the scope, in google/automl's order."""
        yield from self._backbone()
        for level in range(LAST_BACKBONE_LEVEL + 1, self.settings.max_level + 1):
            path = f"resample_layers/{level - LAST_BACKBONE_LEVEL - 1}"
            yield from _projection(f"bifpn_coarse_{level}", _Scope(path, f"resample_p{level}"))
        for cell in range(self.settings.fpn_cell_repeats):
            for index in range(len(self.settings.nodes)):
                yield from self._node(cell, index)
        yield from self._head("class", "class_net", "classes")
        yield from self._head("box", "box_net", "boxes")
        yield from self._segmentation()

    def _backbone(self) -> Iterator[tuple[tuple[str, ...], _Scope]]:
        parsed = [
            layer_names.parse_layer_name(layer) for layer in self.layers if layer_names.in_backbone(layer)
        ]
        positions = sorted({name.indices for name in parsed if name and name.indices})
        for index, position in enumerate(positions):
            own = [name for name in parsed if name and name.indices == position]
            yield from self._block(index, "backbone_block_{}_{}".format(*position), own)
        path, name = "backbone/_stem", f"{self.settings.backbone_name}/stem"
        yield ("backbone_stem",), _Scope(f"{path}/_conv_stem", f"{name}/conv2d")
        yield ("backbone_stem_bn",), _Scope(f"{path}/_bn", f"{name}/tpu_batch_normalization")

    def _block(
        self, index: int, layer: str, own: list[layer_names.LayerName]
    ) -> Iterator[tuple[tuple[str, ...], _Scope]]:
        """Number layers of a kind in creation order; the number 0 is left out."""
        path, name = f"backbone/_blocks/{index}", f"{self.settings.backbone_name}/blocks_{index}"
        expands = any(part.piece == "expand" for part in own)
        first = int(expands)
        norm = f"{name}/tpu_batch_normalization"
        if expands:
            yield (f"{layer}_expand",), _Scope(f"{path}/_expand_conv", f"{name}/conv2d")
            yield (f"{layer}_expand_bn",), _Scope(f"{path}/_bn0", norm)
        yield (f"{layer}_depthwise",), _Scope(f"{path}/_depthwise_conv", f"{name}/depthwise_conv2d")
        yield (f"{layer}_depthwise_bn",), _Scope(f"{path}/_bn1", _numbered(norm, first))
        yield (f"{layer}_gate_reduce",), _Scope(f"{path}/_se/_se_reduce", f"{name}/se/conv2d")
        yield (f"{layer}_gate_expand",), _Scope(f"{path}/_se/_se_expand", f"{name}/se/conv2d_1")
        yield (f"{layer}_project",), _Scope(f"{path}/_project_conv", _numbered(f"{name}/conv2d", first))
        yield (f"{layer}_project_bn",), _Scope(f"{path}/_bn2", _numbered(norm, first + 1))

    def _node(self, cell: int, index: int) -> Iterator[tuple[tuple[str, ...], _Scope]]:
        made = len(self.settings.levels) + index
        path = f"fpn_cells/cells/{cell}/fnodes/{index}"
        name = f"fpn_cells/cell_{cell}/fnode{index}"
        layer = f"bifpn_{cell}_{index}"
        yield (f"{layer}_combine",), _Scope(path, name)
        for number, place in enumerate(self.settings.nodes[index].inputs):
            scope = _Scope(f"{path}/resample_layers/{number}", f"{name}/resample_{number}_{place}_{made}")
            yield from _projection(f"{layer}_input_{number}", scope)
        after = _Scope(f"{path}/op_after_combine", f"{name}/op_after_combine{made}")
        yield _both(layer), _Scope(f"{after.path}/conv_op", f"{after.name}/conv")
        yield (f"{layer}_bn",), _Scope(f"{after.path}/bn", f"{after.name}/bn")

    def _head(self, kind: str, net: str, outputs: str) -> Iterator[tuple[tuple[str, ...], _Scope]]:
        repeats = range(self.settings.box_class_repeats)
        for repeat in repeats:
            yield (
                _both(f"{kind}_tower_{repeat}"),
                _Scope(f"{net}/conv_ops/{repeat}", f"{net}/{kind}-{repeat}"),
            )
        for repeat in repeats:
            for index, level in enumerate(self.settings.levels):
                name = f"{net}/{kind}-{repeat}-bn-{level}"
                layer = f"{kind}_tower_{repeat}_level_{index}_bn"
                yield (layer,), _Scope(f"{net}/bns/{repeat}/{index}", name)
        yield _both(f"{kind}_head"), _Scope(f"{net}/{outputs}", f"{net}/{kind}-predict")

    def _segmentation(self) -> Iterator[tuple[tuple[str, ...], _Scope]]:
        path, name = "seg_head", "segmentation_head"
        steps = range(len(self.settings.levels) - 1)
        for step in steps:
            transpose = _numbered(f"{name}/conv2d_transpose", step)
            yield (f"segmentation_{step}",), _Scope(f"{path}/con2d_ts/{step}", transpose)
        for step in steps:
            yield (f"segmentation_{step}_bn",), _Scope(f"{path}/con2d_t_bns/{step}", f"{name}/bn_{step}")
        last = _numbered(f"{name}/conv2d_transpose", len(steps))
        yield ("segmentation_head",), _Scope(f"{path}/head_transpose", last)


def _projection(layer: str, scope: _Scope) -> Iterator[tuple[tuple[str, ...], _Scope]]:
    yield (layer,), _Scope(f"{scope.path}/conv2d", f"{scope.name}/conv2d")
    yield (f"{layer}_bn",), _Scope(f"{scope.path}/bn", f"{scope.name}/bn")


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name


_BACKBONE, _CLASS_NET, _BOX_NET = "backbone/", "class_net/", "box_net/"
_HEADS = (_CLASS_NET, _BOX_NET, "seg_head/")
_HUB_MODULE = "base_model/"
_BESIDE_HUB_MODULE = {f"{_CLASS_NET}class-predict/": "classes", f"{_BOX_NET}box-predict/": "boxes"}
# Slot of the moving-average optimizer in object-based training checkpoints.
_AVERAGE_SLOT = f"{OPTIMIZER_SLOT}average"
# Parts of the network in each kind of checkpoint, by the prefix of their keys.
_PARTS: Mapping[str, Callable[[str], bool]] = {
    "classification": lambda key: key.startswith(_BACKBONE),
    "detection": lambda key: not key.startswith(_HEADS),
    "full": lambda key: True,
}


def _hub_path(name: str) -> str:
    """Return a variable's path in trainings with a TensorFlow Hub module as one layer (Model Maker's)."""
    for scope, layer in _BESIDE_HUB_MODULE.items():
        if name.startswith(scope):
            return f"{layer}/{name.removeprefix(scope)}"
    return f"{_HUB_MODULE}{escaped_child(f'{name}:0')}"


def _in_objects(kind: str, model: EfficientDetModel, options: FineTuneOptions) -> FillableVariables:
    settings = model.parts.settings
    found = (own for own in automl_variables(model.network, settings) if _PARTS[kind](own.key))
    # The optimizer of a training checkpoint holds moving averages, which give better results.
    ends = (_AVERAGE_SLOT, "") if settings.restore_moving_averages else ("",)
    return [
        (own.variable, [f"{path}{end}" for end in ends for path in (own.key, _hub_path(own.name))])
        for own in found
    ]


def _by_name(kind: str, model: EfficientDetModel, options: FineTuneOptions) -> FillableVariables:
    part = _PARTS["full" if options.heads and kind == "detection" else kind]
    settings = model.parts.settings
    found = automl_variables(model.network, settings)
    # A training checkpoint also holds averaged values, which give better results.
    ends = (AVERAGED, "") if settings.restore_moving_averages else ("",)
    return [(own.variable, [f"{own.name}{end}" for end in ends]) for own in found if part(own.key)]


# A running number follows the name of a layer or scope, but not of the first one.
_STEM = re.compile(
    r"([^/]*)/stem(?:_\d{1,18})?/(conv2d|tpu_batch_normalization)(?:_\d{1,18})?/(.*)", re.ASCII | re.DOTALL
)
_IN_HEAD = re.compile(
    r"(?P<scope>segmentation_head(?:_\d{1,18})?)/"
    r"(?P<layer>conv2d_transpose(?:_(?P<number>\d{1,18}))?/(?=.))?(?P<rest>.+)",
    re.ASCII | re.DOTALL,
)


class _Stored(NamedTuple):
    """The name in the first network of a process, and the name stored in the checkpoint."""

    meant: str
    stored: str


def running_names(names: Iterable[str]) -> dict[str, list[str]]:
    """Map names in the first network of a process to stored names with other running numbers that may match.

    An exact match is the only one, unless it is another layer's name. Names without running numbers are left
    out.
    """
    known = set(names)
    candidates: dict[str, list[str]] = collections.defaultdict(list)
    stems = [(name, match.groups()) for name in known if (match := _STEM.fullmatch(name))]
    found = [_Stored(f"{net}/stem/{layer}/{parameter}", name) for name, (net, layer, parameter) in stems]
    found += _segmentations(known)
    for meant, stored in found:
        candidates[meant].append(stored)
    moved = {stored for meant, stored in found if meant != stored}
    exact = {meant: [meant] if meant in stored else stored for meant, stored in candidates.items()}
    # A stored name may belong to another layer: the fourth of 3, 4, 5, 6 is 6, not 3.
    return {name: [] for name in moved} | exact


def _segmentations(names: Iterable[str]) -> Iterator[_Stored]:
    """Count the convolutions of each head from its first one; from 0 if there are gaps between them."""
    found = [match for name in names if (match := _IN_HEAD.fullmatch(name))]
    numbers: dict[str, set[int]] = collections.defaultdict(set)
    for match in found:
        if match["layer"]:
            numbers[match["scope"]].add(int(match["number"] or 0))
    for match in found:
        layer = ""
        if match["layer"]:
            own = numbers[match["scope"]]
            first = min(own) if max(own) - min(own) + 1 == len(own) else 0
            layer = f"{_numbered('conv2d_transpose', int(match['number'] or 0) - first)}/"
        yield _Stored(f"segmentation_head/{layer}{match['rest']}", match[0])


def checkpoint_names() -> CheckpointNames:
    """Return the names of EfficientDet's variables in checkpoints."""
    return CheckpointNames(
        object_based=Naming(
            kinds={kind: functools.partial(_in_objects, kind) for kind in _PARTS},
            detector=("fpn_cells/", _HUB_MODULE),
            classifier=(_BACKBONE,),
            heads=(_CLASS_NET, "classes/"),
            model=(_BACKBONE, "resample_layers/", "fpn_cells/", *_HEADS, _HUB_MODULE, "classes/", "boxes/"),
        ),
        name_based=Naming(
            kinds={kind: functools.partial(_by_name, kind) for kind in _PARTS},
            detector=("fpn_cells/",),
            classifier=("efficientnet-",),
            heads=(_CLASS_NET,),
            stored_names=running_names,
        ),
    )
