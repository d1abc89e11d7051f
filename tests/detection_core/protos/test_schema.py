"""The compiled messages against the facts that existing configs and records rely on."""

import importlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

import detection_core.protos

FACTS = json.loads((Path(__file__).parent / "data" / "schema.json").read_text())
PREFIX = f".{FACTS['package']}."
KINDS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}
LABELS = {number: name.removeprefix("LABEL_").lower() for name, number in FieldDescriptorProto.Label.items()}


# What detflow adds to the Object Detection API's schema: one file, and fields with numbers from 1000 on.
OWN_FILES = {
    "automl_input.proto",
    "automl_learning_rate.proto",
    "efficientdet.proto",
    "precision.proto",
    "recipe.proto",
    "registered.proto",
    "monitoring.proto",
    "validation.proto",
}
OWN_NUMBERS = 1000
OWN_FIELDS = {
    "ClassificationLoss.registered",
    "LocalizationLoss.registered",
    "PreprocessingStep.automl_grid_mask",
    "PreprocessingStep.automl_scale_jitter",
    "PreprocessingStep.drop_crowd_boxes",
    "PreprocessingStep.copy_paste",
    "PreprocessingStep.large_scale_jitter",
    "PreprocessingStep.mixup",
    "PreprocessingStep.mosaic",
    "PreprocessingStep.registered",
    "ImageResizer.automl_resizer",
    "DetectionModel.efficientdet",
    "ExperimentalModel.num_classes",
    "ExperimentalModel.image_resizer",
    "ExperimentalModel.options",
    "AdamOptimizer.beta_1",
    "AdamOptimizer.beta_2",
    "LearningRate.automl_cosine_learning_rate",
    "LearningRate.automl_polynomial_learning_rate",
    "LearningRate.automl_stepwise_learning_rate",
    "Optimizer.moving_average_from_weights",
    "TrainConfig.deterministic",
    "TrainConfig.gradient_accumulation_steps",
    "TrainConfig.gradient_clipping_by_variable_norm",
    "TrainConfig.initial_loss_scale",
    "TrainConfig.max_skipped_updates",
    "TrainConfig.precision",
    "TrainConfig.seed",
    "TrainConfig.monitoring",
    "TrainConfig.validation",
    "TrainConfig.mixing_pool_size",
    "TrainConfig.num_epochs",
    "InputReader.decode_at_reduced_size",
    "InputReader.repeat_factor_threshold",
    "TrainConfig.freeze_backbone_stages",
    "TrainConfig.backbone_rate_decay",
    "TrainConfig.multi_scale",
    "TrainConfig.close_mosaic_epochs",
    "ExponentialDecayLearningRate.decay_epochs",
    "ExponentialDecayLearningRate.burnin_epochs",
    "ManualStepLearningRate.LearningRateSchedule.epoch",
    "CosineDecayLearningRate.total_epochs",
    "CosineDecayLearningRate.warmup_epochs",
    "CosineDecayLearningRate.hold_base_rate_epochs",
    "TrainConfig.close_mosaic_steps",
}
OWN_MESSAGES = {"ExperimentalModel.OptionsEntry"}


def compiled(name: str) -> FileDescriptorProto:
    module = importlib.import_module(f"detection_core.protos.{name.removesuffix('.proto')}_pb2")
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def literal(text: str, kind: str) -> object:
    """A default in a form that does not depend on how the number was written."""
    if kind == "float":
        return struct.unpack("f", struct.pack("f", float(text)))[0]
    return text


def fact_field(text: str) -> dict:
    declaration, *options = text.split("; ")
    left, number = declaration.rsplit(" = ", 1)
    label, *kind, name = left.split(" ")
    field = {"label": label, "type": " ".join(kind), "name": name, "number": int(number)}
    for option in options:
        key, _, value = option.partition(" ")
        field[key] = literal(json.loads(value), kind[0]) if key == "default" else value
    return field


def compiled_field(field: FieldDescriptorProto, message: DescriptorProto) -> dict:
    kind = KINDS[field.type]
    full = f"{kind} {field.type_name.removeprefix(PREFIX)}" if field.type_name else kind
    result = {"label": LABELS[field.label], "type": full, "name": field.name, "number": field.number}
    if field.HasField("default_value"):
        result["default"] = literal(field.default_value, kind)
    if field.HasField("oneof_index"):
        result["oneof"] = message.oneof_decl[field.oneof_index].name
    if field.options.deprecated:
        result["deprecated"] = ""
    return result


def enum_values(enums: list[EnumDescriptorProto]) -> dict:
    return {enum.name: {value.name: value.number for value in enum.value} for enum in enums}


def walk(messages: list[DescriptorProto], scope: str = "") -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:
        yield scope + message.name, message
        yield from walk(message.nested_type, f"{scope}{message.name}.")


def by_number(fields: list[dict]) -> list[dict]:
    return sorted(fields, key=lambda field: field["number"])


def test_every_file_of_the_schema_is_there_and_no_other():
    folder = Path(detection_core.protos.__file__).parent
    assert {path.name for path in folder.glob("*.proto")} == set(FACTS["files"]) | OWN_FILES


@pytest.mark.parametrize("name", sorted(FACTS["files"]))
def test_messages_equal_the_facts(name):
    file, facts = compiled(name), FACTS["files"][name]
    assert file.package == FACTS["package"]
    assert file.syntax in ("", "proto2")
    assert enum_values(file.enum_type) == facts["enums"]
    messages = dict(walk(file.message_type))
    assert set(messages) - OWN_MESSAGES == set(facts["messages"])
    for full_name, fact in facts["messages"].items():
        message = messages[full_name]
        expected = by_number([fact_field(text) for text in fact["fields"]])
        shared = [f for f in message.field if f.number < OWN_NUMBERS]
        assert by_number([compiled_field(f, message) for f in shared]) == expected, full_name
        assert enum_values(message.enum_type) == fact.get("enums", {})
        assert [[r.start, r.end] for r in message.extension_range] == fact.get("extension_ranges", [])
        assert [[r.start, r.end] for r in message.reserved_range] == fact.get("reserved_ranges", [])
        assert message.options.map_entry == fact.get("map_entry", False)


def test_the_facts_are_the_whole_schema():
    messages = [fact for file in FACTS["files"].values() for fact in file["messages"].values()]
    assert (len(FACTS["files"]), sum(len(message["fields"]) for message in messages)) == (34, 824)


def test_what_is_not_of_the_schema_is_known():
    own = {
        f"{scope}.{field.name}"
        for name in FACTS["files"]
        for scope, message in walk(compiled(name).message_type)
        if scope not in OWN_MESSAGES
        for field in message.field
        if field.number >= OWN_NUMBERS
    }
    assert own == OWN_FIELDS
