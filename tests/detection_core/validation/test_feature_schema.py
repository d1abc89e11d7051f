from tensorflow_metadata.proto.v0 import schema_pb2

from detection_core.data.encode import bytes_feature, float_feature, int64_feature, serialise_features
from detection_core.validation.feature_anomalies import find_anomalies
from detection_core.validation.feature_schema import CLASS_TEXT, infer_schema
from tests.support.feature_records import make_statistics
from tests.support.made_examples import CLASSES, Made, encode

YMIN = "image/object/bbox/ymin"


def _record():
    columns = {"image/height": int64_feature([48]), YMIN: float_feature([0.1, 0.2])}
    columns |= {"image/format": bytes_feature([b"jpeg"]), "image/source_id": bytes_feature([b"a"])}
    return serialise_features(columns | {CLASS_TEXT: bytes_feature([b"cat", b"cat"])})


SCHEMA = infer_schema(make_statistics([_record(), _record()]), CLASSES)


def test_the_schema_tells_types_presence_and_domains_and_fits_its_examples():
    features = {feature.name: feature for feature in SCHEMA.feature}
    assert features["image/height"].type == schema_pb2.INT and features["image/height"].shape.dim[0].size == 1
    assert features[YMIN].float_domain.max == 1.0 and not features[YMIN].shape.dim
    assert all(feature.presence.min_fraction == 1.0 for feature in SCHEMA.feature)
    domains = {domain.name: list(domain.value) for domain in SCHEMA.string_domain}
    # The classes are those of the label map: one that has no object yet belongs to them.
    assert domains == {"image/format": ["jpeg"], CLASS_TEXT: ["cat", "dog"]}
    records = [encode(Made(boxes=(), classes=()), 0), encode(Made(), 1)]
    found = make_statistics(records)
    assert not find_anomalies(found, infer_schema(found, CLASSES)).anomaly_info
