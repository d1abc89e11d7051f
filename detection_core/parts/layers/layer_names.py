"""The grammar of layer names: the only module that parses the names of layers and their variables.

A layer's name tells its part of a detector. Names never change, as folders of trained detectors contain them.
Builders compose names, this module parses them, and all other modules use the `LayerName` that it returns:

    layer  = part {"_" index} ["_" piece ["_" number]] ["_level_" level] ["_bn"]
    part   = "backbone_" word | one of `PARTS`
    piece  = word {"_" word}

`index` counts the units of a part: the block of a backbone, the level of a pyramid, the layer of a tower.
`piece` is the layer's role in its unit, such as "depthwise" or "expand". `number` distinguishes equal pieces.
"_level_" marks what belongs to one call of a layer that pyramid levels share. That is its normalisation, or
the copy that a rewrite makes for that call. "_bn" marks the normalisation after the layer.

    backbone_block_3_expand_bn  part "backbone_block", index 3, piece "expand", normalisation
    fpn_smooth_4_depthwise      part "fpn_smooth", index 4, piece "depthwise"
    bifpn_7_input_0             part "bifpn", index 7, piece "input", number 0
    tower_2_level_4_bn          part "tower", index 2, level 4, normalisation

A variable's name is "scope/layer/weight:0": the scopes of wrappers, its layer's name, and its own.
"""

import dataclasses
import re

import tensorflow as tf

PARTS = (
    "fpn_lateral", "fpn_smooth", "fpn_coarse", "extra", "bifpn", "head_shared", "head_projection",
    "box_head", "class_head", "box_tower", "class_tower", "tower", "segmentation", "rpn", "region",
    "mask_head",
)  # fmt: skip
BACKBONE = "backbone_"
"""Prefix of every layer of a backbone, external ones included."""

_LEVEL = "_level_"
_NORM = "_bn"
_LAYER = re.compile(
    rf"(?P<part>{'|'.join(PARTS)}|{BACKBONE}[a-z]+)"
    r"(?P<indices>(?:_\d+)*)"
    r"(?:_(?!level_\d|bn$)(?P<piece>[a-z]+(?:_[a-z]+)*?)(?:_(?P<number>\d+))?)?"
    rf"(?:{_LEVEL}(?P<level>\d+))?"
    rf"(?P<norm>{_NORM})?"
)
_COPY = re.compile(rf"(.+){_LEVEL}\d+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerName:
    """A parsed layer name.

    Attributes:
        part: the part of the detector, one of `PARTS` or "backbone_" with a word.
        indices: of the unit in its part.
        piece: the layer's role in its unit; "" if the unit has one layer only.
        number: distinguishes equal pieces of a unit; None if there is only one.
        level: of the call of a shared layer that it belongs to; None for a layer of all calls.
        norm: whether it is the normalisation after the layer with the rest of the name.
    """

    part: str
    indices: tuple[int, ...] = ()
    piece: str = ""
    number: int | None = None
    level: int | None = None
    norm: bool = False

    @property
    def unit(self) -> str:
        """The name with N for each number and without the role in the unit, such as "fpn_smooth_N"."""
        numbered = f"_{self.piece}_N" if self.number is not None else ""
        return (
            self.part + "_N" * len(self.indices) + numbered + (f"{_LEVEL}N" if self.level is not None else "")
        )

    @property
    def role(self) -> str:
        """The role in the unit: the piece if it has no number, then "bn" for a normalisation."""
        piece = self.piece if self.number is None else ""
        return "_".join(word for word in (piece, "bn" if self.norm else "") if word)


def parse_layer_name(name: str) -> LayerName | None:
    """Parse a layer's name; a backbone name outside the grammar becomes the `part` as a whole.

    It is None for a layer of no part, such as an input or an operation between parts.
    """
    match = _LAYER.fullmatch(name)
    if match is None:
        return LayerName(part=name) if in_backbone(name) else None
    return LayerName(
        part=match["part"],
        indices=tuple(int(index) for index in match["indices"].split("_")[1:]),
        piece=match["piece"] or "",
        number=_integer(match["number"]),
        level=_integer(match["level"]),
        norm=match["norm"] is not None,
    )


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def in_backbone(name: str) -> bool:
    """Return whether a layer of this name belongs to the backbone."""
    return name.startswith(BACKBONE)


def split_norm(name: str) -> tuple[str, bool]:
    """Return the name of the normalised layer, and whether the name is a normalisation's."""
    return name.removesuffix(_NORM), name.endswith(_NORM)


def copy_name(layer: str, level: int) -> str:
    """Return the name of a shared layer's copy for call number `level`."""
    return f"{layer}{_LEVEL}{level}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VariableName:
    """A parsed variable name: its layer, "" without one, and the weight, such as "kernel"."""

    layer: str
    weight: str

    @property
    def key(self) -> str:
        """The name without the scopes of wrappers, "layer/weight"."""
        return f"{self.layer}/{self.weight}"

    @property
    def original(self) -> "VariableName":
        """The variable of the original shared layer; itself if the layer is no copy."""
        match = _COPY.fullmatch(self.layer)
        return self if match is None else dataclasses.replace(self, layer=match[1])


def scoped_name(variable: tf.Variable) -> str:
    """Return a variable's name with all its scopes, without the output number."""
    return str(variable.name).partition(":")[0]


def parse_variable_name(variable: tf.Variable) -> VariableName:
    """Parse a variable's name."""
    scopes, _, weight = scoped_name(variable).rpartition("/")
    return VariableName(layer=scopes.rpartition("/")[2], weight=weight)
