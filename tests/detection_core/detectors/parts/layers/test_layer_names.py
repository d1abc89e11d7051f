import ast
from pathlib import Path

import tensorflow as tf
import tf_keras

from detection_core.builders.detector import build_detector
from detection_core.detectors.parts.layers.layer_names import (
    LayerName,
    VariableName,
    copy_name,
    in_backbone,
    parse_layer_name,
    parse_variable_name,
    scoped_name,
    split_norm,
)
from tests.support.cases import cases
from tests.support.golden_networks import MOBILE, load_golden

CORE = Path(__file__).parents[5] / "detection_core"
PARSER = CORE / "detectors/parts/layers/layer_names.py"
STRING_METHODS = {
    *("split", "rsplit", "partition", "rpartition", "startswith", "endswith"),
    *("removeprefix", "removesuffix", "find", "rfind", "index", "replace", "strip"),
}
# Names in the checkpoints and classifiers of other projects, not those of our layers.
EXEMPT = {
    CORE / "detectors/ssd/checkpoint_names/kinds.py": {"v.name"},
    CORE / "training/application_weights.py": {"norm.name"},
    # A file's tensor is named by the converter, with all nodes of the graph that it comes from.
    CORE / "exporters/tflite_layers.py": {"tensor.name"},
}


def _name(part: str, *indices: int, **rest) -> LayerName:
    return LayerName(part=part, indices=indices, **rest)


@cases(
    ("backbone_stem_bn", _name("backbone_stem", norm=True), "backbone_stem", "bn"),
    (
        "backbone_block_3_0_gate_reduce",
        _name("backbone_block", 3, 0, piece="gate_reduce"),
        "backbone_block_N_N",
        "gate_reduce",
    ),
    ("backbone_conv2_3x3", _name("backbone_conv2_3x3"), "backbone_conv2_3x3", ""),
    ("fpn_lateral_4", _name("fpn_lateral", 4), "fpn_lateral_N", ""),
    (
        "extra_2_halve_depthwise_bn",
        _name("extra", 2, piece="halve_depthwise", norm=True),
        "extra_N",
        "halve_depthwise_bn",
    ),
    ("bifpn_7_input_1_bn", _name("bifpn", 7, piece="input", number=1, norm=True), "bifpn_N_input_N", "bn"),
    ("box_head_pointwise", _name("box_head", piece="pointwise"), "box_head", "pointwise"),
    (
        "class_head_5_depthwise_bn",
        _name("class_head", 5, piece="depthwise", norm=True),
        "class_head_N",
        "depthwise_bn",
    ),
    ("box_tower_2_level_4_bn", _name("box_tower", 2, level=4, norm=True), "box_tower_N_level_N", "bn"),
)
def test_what_a_name_says(*, name, parsed, unit, role):
    found = parse_layer_name(name)
    assert (found, found.unit, found.role) == (parsed, unit, role)


@cases(*MOBILE)
def test_every_layer_with_weights_has_a_role_of_its_own(*, golden):
    network = build_detector(load_golden(golden).message).network
    names = [layer.name for layer in network.layers if layer.weights]
    roles = [parse_layer_name(name) for name in names]
    assert None not in roles
    assert len(set(roles)) == len(names) > 40
    assert [in_backbone(name) for name in names] == [role.part.startswith("backbone_") for role in roles]


def test_a_variable_is_known_behind_the_scopes_of_wrappers():
    with tf.name_scope("quant_box_head_level_3"):
        variable = tf.Variable(1.0, name=f"{copy_name('box_head', 3)}/kernel")
    assert scoped_name(variable) == "quant_box_head_level_3/box_head_level_3/kernel"
    found = parse_variable_name(variable)
    assert found == VariableName(layer="box_head_level_3", weight="kernel")
    assert (found.key, found.original.key) == ("box_head_level_3/kernel", "box_head/kernel")
    assert found.original.original == found.original


def test_norms_are_called_after_their_layer_the_weight_inside_it_and_others_have_no_role():
    assert split_norm("backbone_stem_bn") == ("backbone_stem", True)
    assert split_norm("backbone_stem") == ("backbone_stem", False)
    layer = tf_keras.layers.Dense(2, name="some/layer")
    layer.build((1, 3))
    assert [parse_variable_name(weight).weight for weight in layer.weights] == ["kernel", "bias"]
    names = ("image", "somebody", "fpn_add_3", "tower-x", "head")
    assert {name: parse_layer_name(name) for name in names} == dict.fromkeys(names)


def _parsed_names(path: Path) -> set[str]:
    """Expressions `X.name` that a module takes apart, and whether it imports regular expressions."""
    parsed = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import) and "re" in {alias.name for alias in node.names}:
            parsed.add("import re")
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called, subjects = node.func, []
        if called.attr in STRING_METHODS:
            subjects = [called.value]
        elif called.attr in ("match", "fullmatch", "search", "sub", "findall"):
            subjects = list(node.args)
        for subject in subjects:
            inner = [n for n in ast.walk(subject) if isinstance(n, ast.Attribute) and n.attr == "name"]
            parsed |= {ast.unparse(n) for n in inner}
    return parsed


def test_nobody_else_parses_names_of_layers_or_has_regular_expressions():
    offenders = {}
    for folder in ("detectors", "quantization", "training", "exporters", "builders", "tasks"):
        for path in (CORE / folder).rglob("*.py"):
            parsed = _parsed_names(path) - EXEMPT.get(path, set())
            parsed -= set() if folder in ("detectors", "quantization") else {"import re"}
            if path != PARSER and parsed:
                offenders[str(path)] = parsed
    assert offenders == {}
