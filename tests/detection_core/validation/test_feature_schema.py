from __future__ import annotations

import pytest
from tensorflow.core.example.example_pb2 import Example
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from detection_core.data.encode import bytes_feature, float_feature, int64_feature, serialise_features
from detection_core.validation.feature_schema import CLASS_TEXT, find_anomalies, infer_schema
from detection_core.validation.feature_statistics import FeatureCounter
from tests.detection_core.validation.made_examples import CLASSES, Made, encode

YMIN = "image/object/bbox/ymin"


def _record(**changes):
    columns = {
        "image/format": bytes_feature([b"jpeg"]),
        "image/height": int64_feature([48]),
        "image/source_id": bytes_feature([b"a"]),
        YMIN: float_feature([0.1, 0.2]),
        CLASS_TEXT: bytes_feature([b"cat", b"cat"]),
    }
    return serialise_features({k: v for k, v in {**columns, **changes}.items() if v is not None})


def _statistics(*records):
    counter = FeatureCounter()
    for record in records:
        counter.add(Example.FromString(record).features.feature)
    return counter.statistics()


SCHEMA = infer_schema(_statistics(_record(), _record()), CLASSES)


def test_the_schema_tells_types_presence_and_domains():
    features = {feature.name: feature for feature in SCHEMA.feature}
    assert features["image/height"].type == schema_pb2.INT and features["image/height"].shape.dim[0].size == 1
    assert features[YMIN].float_domain.max == 1.0 and not features[YMIN].shape.dim
    assert all(feature.presence.min_fraction == 1.0 for feature in SCHEMA.feature)
    domains = {domain.name: list(domain.value) for domain in SCHEMA.string_domain}
    # The classes are those of the label map: one that has no object yet belongs to them.
    assert domains == {"image/format": ["jpeg"], CLASS_TEXT: ["cat", "dog"]}


def _reasons(*records):
    found = find_anomalies(_statistics(*records), SCHEMA)
    return {
        name: [anomalies_pb2.AnomalyInfo.Type.Name(reason.type) for reason in info.reason]
        for name, info in found.anomaly_info.items()
    }


def test_examples_of_the_same_kind_fit():
    assert _reasons(_record(), _record(**{CLASS_TEXT: bytes_feature([b"dog"])})) == {}


@pytest.mark.parametrize(
    ("changes", "column", "reason"),
    [
        ({"more": int64_feature([1])}, "more", "SCHEMA_NEW_COLUMN"),
        ({"image/height": None}, "image/height", "SCHEMA_MISSING_COLUMN"),
        ({"image/height": float_feature([4.0])}, "image/height", "INT_TYPE_INT_EXPECTED"),
        ({"image/height": int64_feature([])}, "image/height", "FEATURE_TYPE_LOW_NUMBER_VALUES"),
        ({"image/height": int64_feature([1, 2])}, "image/height", "FEATURE_TYPE_HIGH_NUMBER_VALUES"),
        ({"image/format": bytes_feature([b"tiff"])}, "image/format", "ENUM_TYPE_UNEXPECTED_STRING_VALUES"),
        ({CLASS_TEXT: bytes_feature([b"cow"])}, CLASS_TEXT, "ENUM_TYPE_UNEXPECTED_STRING_VALUES"),
        ({YMIN: float_feature([1.5])}, YMIN, "FLOAT_TYPE_BIG_FLOAT"),
        ({YMIN: float_feature([-0.5])}, YMIN, "FLOAT_TYPE_SMALL_FLOAT"),
        ({YMIN: float_feature([float("nan"), 0.5])}, YMIN, "FLOAT_TYPE_HAS_NAN"),
    ],
)
def test_what_does_not_fit_is_named_with_its_reason(changes, column, reason):
    assert _reasons(_record(**changes)) == {column: [reason]}


def test_a_column_that_is_missing_at_times_is_told_how_often():
    found = find_anomalies(_statistics(_record(), _record(**{"image/height": None})), SCHEMA)
    assert found.anomaly_info["image/height"].description == "missing in 1 of 2 examples"


def test_examples_as_they_are_written_fit_their_own_schema():
    records = [encode(Made(boxes=(), classes=()), 0), encode(Made(), 1)]
    found = _statistics(*records)
    assert not find_anomalies(found, infer_schema(found, CLASSES)).anomaly_info
