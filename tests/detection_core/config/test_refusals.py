"""Every field of the schema is used, without effect or refused, and the tables tell the truth about it."""

import ast
import functools
import logging
import re
from pathlib import Path

import yaml

from detection_core.config import check
from detection_core.config.check import (
    check_pipeline_config,
    find_refused,
    find_without_effect,
    warn_without_effect,
)
from detection_core.config.load import load_pipeline_config, parse_pipeline_config
from detection_core.config.messages.table import RULES as OWN_RULES
from detection_core.detectors.family import families
from detection_core.detectors.rules import Rules, message_name
from detection_core.protos.model_pb2 import ExperimentalModel
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
from tests.support.cases import cases, config_refused
from tests.support.configs import FOLDER, PYRAMID, changed

RULES = {**OWN_RULES, **{name: rules for family in families() for name, rules in family.rules.items()}}
# Modules below `detection_core` to the messages whose fields they read.
READERS = yaml.safe_load((FOLDER / "field_readers.yaml").read_text(encoding="utf-8"))
READERS_OF = {name: modules.split() for modules, names in READERS.items() for name in names}
CORE = Path(check.__file__).parents[1]


def _reachable():
    """Message types below the root, leaving out what lies in refused fields and in fields without effect."""
    # An experimental model is refused until a family of that name is registered.
    found, waiting = {}, [TrainEvalPipelineConfig.DESCRIPTOR, ExperimentalModel.DESCRIPTOR]
    while waiting:
        message = waiting.pop()
        name = message_name(message)
        if name in found:
            continue
        found[name] = message
        entry = RULES.get(name, Rules())
        for field in message.fields:
            child = field.message_type
            if child is not None and child.GetOptions().map_entry:
                child = child.fields_by_name["value"].message_type
            if child is not None and field.name not in (*entry.refused, *entry.without_effect):
                waiting.append(child)
    return found


MESSAGES = _reachable()


_COPIES = {"from_fields", "same_fields"}  # of builders/oneof.py


def _tree(module):
    return ast.parse((CORE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))


def _declared(tree, node):
    """Names of the fields of a class that a module imports, by itself or in its module."""
    owner, name = (node.value.id, node.attr) if isinstance(node, ast.Attribute) else (node.id, node.id)
    for found in ast.walk(tree):
        if isinstance(found, ast.ImportFrom) and owner in {alias.name for alias in found.names}:
            module = f"{found.module}.{owner}" if owner != name else found.module
            below = _tree(module.removeprefix("detection_core."))
            classes = {c.name: c for c in below.body if isinstance(c, ast.ClassDef)}
            while name in classes:
                yield from (f.target.id for f in classes[name].body if isinstance(f, ast.AnnAssign))
                name = next((base.id for base in classes[name].bases if isinstance(base, ast.Name)), "")


@functools.cache
def _names(module):
    """Names that a module reads or declares, and patterns of the names that it puts together."""
    tree = _tree(module)
    names, patterns = set(), []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=copy), args=[ast.Name() | ast.Attribute() as made, *_]) if (
                copy in _COPIES
            ):
                names.update(_declared(tree, made))
            case ast.Attribute(attr=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Constant(value=str(name)):
                names.add(name)
            case ast.JoinedStr(values=parts):
                words = [p.value if isinstance(p, ast.Constant) else r"[a-z]+" for p in parts]
                if re.fullmatch(r"\w{4,}", "".join(words).replace("[a-z]+", "")):
                    patterns.append("".join(words))
    return frozenset(names), tuple(patterns)


def _is_read(field, modules):
    known = map(_names, modules)
    return any(field in names or any(re.fullmatch(p, field) for p in patterns) for names, patterns in known)


def _related(entry):
    """Names of the fields that relations compare."""
    operands = [operand for relations in entry.wrong_if.values() for operand in relations.values()]
    flat = [part for operand in operands for part in (operand if isinstance(operand, list) else [operand])]
    return {str(path).split(".")[0] for path in [*entry.wrong_if, *flat]}


def _is_settled(entry, field):
    """Whether no reader has to look at a field, as the rules leave nothing of it to be read."""
    if field.name in entry.refused or field.name in entry.without_effect:
        return True
    if field.name in entry.refused_values:
        left = {value.name for value in field.enum_type.values} - set(entry.refused_values[field.name])
        return len(left - {"INPUT_DEFAULT"}) == 1  # which means what another value means
    below = field.message_type
    if below is None or not below.fields or below.GetOptions().map_entry:
        return False
    return all(_is_settled(RULES.get(message_name(below), Rules()), child) for child in below.fields)


def test_every_message_has_an_entry_and_every_entry_a_message():
    assert set(READERS_OF) == set(MESSAGES)
    assert set(RULES) <= set(MESSAGES) and Rules() not in RULES.values()
    # A walk that stops early would leave little to look at.
    assert len(MESSAGES) > 100
    assert sum(len(message.fields) for message in MESSAGES.values()) > 500
    said = [f for entry in RULES.values() for f in (*entry.without_effect, *entry.refused)]
    assert len(said) < 120
    assert not _is_read("num_iterations", ("builders.detector_parts",))
    assert _is_read("matched_threshold", ("builders.detector_parts",))
    assert _is_read("min_image_height", ("builders.augment",))


@cases(*sorted(MESSAGES))
def test_every_field_is_read_or_accounted_for_with_a_reason(*, name):
    known = {field.name for field in MESSAGES[name].fields}
    entry, modules = RULES.get(name, Rules()), READERS_OF[name]
    named = [*entry.without_effect, *entry.refused]
    assert len(named) == len(set(named)) and set(named) <= known
    assert set(entry.refused_values) <= known - set(named)
    asked = {field.name for field in MESSAGES[name].fields if not _is_settled(entry, field)}
    unread = {f for f in asked - _related(entry) if not _is_read(f, modules)}
    assert not unread, f"{modules} should read them, or the table say what becomes of them"
    assert all(len(reason) > 15 for reason in entry.without_effect.values())
    for reason in [*entry.refused.values(), *(r for v in entry.refused_values.values() for r in v.values())]:
        assert re.search(r"[;] |\b(use|set|write|repeat|remove|leave|run)\b", reason), reason


REFUSED = {
    "model.ssd.loss.expected_loss_weights": "EXPECTED_SAMPLING",
    "model.ssd.loss.equalization_loss.weight": 0.5,
    "model.ssd.image_resizer.fixed_shape_resizer.convert_to_grayscale": True,
    "model.ssd.feature_extractor.conv_hyperparams.group_norm": {},
    "eval_config.force_no_resize": True,
    "train_input_reader.load_track_id": True,
    "eval_input_reader[0].input_type": "TF_SEQUENCE_EXAMPLE",
    "model.ssd.mask_head_config": {"mask_height": 14},
}


@cases(*REFUSED.items())
def test_what_nothing_here_can_do_is_refused_with_a_remedy(*, path, value):
    config = changed(PYRAMID, {path: value})
    assert [problem.path for problem in find_refused(config)] == [path]
    config_refused(f"^{re.escape(path)}: expected .*, found .*: .*", check_pipeline_config, config)


def test_other_detectors_are_refused_and_a_default_asks_for_nothing():
    other = parse_pipeline_config('model { experimental_model { name: "x" } }')
    config_refused("model.experimental_model: expected none", check_pipeline_config, other)
    config = parse_pipeline_config("train_config { use_bfloat16: false replicas_to_aggregate: 1 }")
    assert not find_without_effect(config) and not list(find_refused(config))
    inside = "mask_head_config { conv_hyperparams { regularize_depthwise: true } }"
    config = parse_pipeline_config(f"model {{ ssd {{ {inside} }} }}")
    assert [problem.path for problem in find_refused(config)] == ["model.ssd.mask_head_config"]
    assert not find_without_effect(config)


# Settings that published configs carry although they meant TPUs, or TensorFlow 1.
OF_THE_FIELD = """train_config {
    sync_replicas: true startup_delay_steps: 0 replicas_to_aggregate: 8 use_bfloat16: true
    unpad_groundtruth_tensors: false }
  model { ssd { inplace_batchnorm_update: true matcher { argmax_matcher { use_matmul_gather: true } } } }"""


def test_what_has_no_effect_is_accepted_and_named_in_one_line(caplog):
    config = load_pipeline_config(PYRAMID)
    config.MergeFrom(parse_pipeline_config(OF_THE_FIELD))
    check._WARNED.clear()
    with caplog.at_level(logging.WARNING, logger=check.__name__):
        check_pipeline_config(config, where="old.config")
        warn_without_effect(config, where="old.config")
        check_pipeline_config(config)  # As a step does that gets the config and not its file.
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("old.config: without effect here: ")
    for path in (
        "train_config.sync_replicas (replicas always update together)", "train_config.startup_delay_steps",
        "train_config.use_bfloat16 (it is for TPUs; train_config.precision says what training computes in)",
        "model.ssd.inplace_batchnorm_update", "model.ssd.matcher.argmax_matcher.use_matmul_gather",
    ):  # fmt: skip
        assert path in line
