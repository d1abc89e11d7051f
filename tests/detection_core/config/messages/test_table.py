"""Whatever the rules name is in the schema."""

from google.protobuf.descriptor import FieldDescriptor

from detection_core.config.messages.table import RULES, message_name, rules_of
from detection_core.config.ranges import BY_FIELD_NAME
from detection_core.config.rules import Rules
from detection_core.protos.matcher_pb2 import Matcher
from tests.support.cases import cases
from tests.support.schema_messages import MESSAGES

# Numbers that the schema gives no default that is in their range: a config has to set them.
MUST_BE_SET = {
    "AutomlCosineLearningRate.total_steps", "AutomlPolynomialLearningRate.total_steps",
    "AutomlStepwiseLearningRate.first_drop_step", "AutomlStepwiseLearningRate.second_drop_step",
    "KeypointBoxCoder.num_keypoints", "RandomResizeMethod.target_height", "RandomResizeMethod.target_width",
    "ResizeImage.new_height", "ResizeImage.new_width", "SSDRandomCropFixedAspectRatioOperation.min_area",
    "SSDRandomCropOperation.min_area", "SSDRandomCropOperation.min_aspect_ratio",
    "SSDRandomCropPadFixedAspectRatioOperation.min_area",
    "SSDRandomCropPadFixedAspectRatioOperation.min_aspect_ratio", "SSDRandomCropPadOperation.min_area",
    "SSDRandomCropPadOperation.min_aspect_ratio", "TemperatureScalingCalibration.scaler",
}  # fmt: skip


@cases(*sorted(RULES))
def test_rules_name_fields_and_oneofs_of_their_message(*, name):
    rules, message = RULES[name], MESSAGES[name]
    assert set(rules.oneofs) <= set(message.oneofs_by_name)
    assert all(message.fields_by_name[part].message_type is not None for part in rules.parts)
    for field in rules.ranges:
        kind = message.fields_by_name[field].cpp_type
        assert kind not in (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_BOOL)
        assert field not in rules.refused


def test_numbers_that_must_be_set_are_known_and_ranges_by_name_not_copied():
    outside = set()
    for name, rules in RULES.items():
        for field, allowed in rules.ranges.items():
            descriptor = MESSAGES[name].fields_by_name[field]
            if not descriptor.is_repeated and not allowed.holds(descriptor.default_value):
                outside.add(f"{name}.{field}")
    assert outside == MUST_BE_SET
    assert rules_of(MESSAGES["FasterRcnn"]) == Rules()
    assert message_name(Matcher.DESCRIPTOR) == "Matcher"
    assert rules_of(Matcher.DESCRIPTOR).oneofs == ("matcher_oneof",)
    fields = {field.name: field for message in MESSAGES.values() for field in message.fields}
    for message in MESSAGES.values():
        shared = [f for f in message.fields if f.name in BY_FIELD_NAME]
        assert not any(field.is_repeated or field.message_type for field in shared)
        own = rules_of(message).ranges
        # An own range that equals the shared one would be a second copy of it.
        assert not [f.name for f in shared if own.get(f.name) == BY_FIELD_NAME[f.name] and f.default_value]
    assert set(BY_FIELD_NAME) <= set(fields)
