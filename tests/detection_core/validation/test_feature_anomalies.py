"""Texts and types are those of TFDV 1.16.1; components/data_validator/test_tfdv.py compares the two."""

import math

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from detection_core.data.encode import bytes_feature, float_feature, int64_feature
from detection_core.validation.feature_anomalies import find_anomalies
from detection_core.validation.feature_statistics import FeatureCounter
from detection_core.validation.schema_file import is_current
from tests.support.cases import cases
from tests.support.feature_records import make_statistics

_TEXTS = bytes_feature([b"x", "y\né".encode()])
RECORDS = (
    {"a": int64_feature([1]), "f": float_feature([0.5, -1.0]), "t": _TEXTS}
    | {"new": int64_feature([3]), "image/encoded": bytes_feature([b"123"])},
    {"a": int64_feature([7]), "f": float_feature([math.nan, 9.0, math.inf]), "t": bytes_feature([b"x"])},
    {"a": int64_feature([-2]), "f": float_feature([])},
)


def _found(feature, more=""):
    """The anomalies of the one column that a schema tells of."""
    schema = text_format.Parse(f"feature {{ {feature} }} {more}", schema_pb2.Schema())
    found = find_anomalies(make_statistics(RECORDS), schema)
    assert found.baseline == schema
    info = found.anomaly_info[schema.feature[0].name]
    assert not info.reason or info.severity == anomalies_pb2.AnomalyInfo.ERROR
    return info


# Column and constraint, type of the anomaly, short text, whole text.
TOLD = """
name: 'gone' type: INT presence { min_count: 1 }
SCHEMA_MISSING_COLUMN | Column dropped | Column is completely missing
name: 'a' type: BYTES
UNEXPECTED_DATA_TYPE | Unexpected data type | Expected data of type: BYTES but got INT
name: 'a' type: INT presence { min_count: 9 }
FEATURE_TYPE_LOW_NUMBER_PRESENT | Column dropped | The feature was present in fewer examples than expected: minimum count = 9, actual = 3
name: 't' type: BYTES presence { min_fraction: 1 }
FEATURE_TYPE_LOW_FRACTION_PRESENT | Column dropped | The feature was present in fewer examples than expected: minimum fraction = 1.000000, actual = 0.666667
name: 'f' type: FLOAT value_count { min: 1 }
FEATURE_TYPE_LOW_NUMBER_VALUES | Missing values | Some examples have fewer values than expected.
name: 'f' type: FLOAT value_counts { value_count { max: 2 } }
FEATURE_TYPE_HIGH_NUMBER_VALUES | Superfluous values | Some examples have more values than expected at nestedness level 0.
name: 'f' type: FLOAT value_counts { value_count { } value_count { } }
VALUE_NESTEDNESS_MISMATCH | Mismatched value nest level | The values have a different nest level than expected. Value counts will not be checked.
name: 'a' type: INT shape { dim { size: 2 } }
INVALID_FEATURE_SHAPE | Feature shape dropped | The feature has fixed value length 1 but it's not compatible with the specified shape.
name: 'a' type: INT int_domain { min: 0 }
INT_TYPE_SMALL_INT | Out-of-range values | Unexpectedly small value: -2.
name: 'a' type: INT int_domain { max: 3 }
INT_TYPE_BIG_INT | Out-of-range values | Unexpectedly large value: 7.
name: 'a' type: INT bool_domain { }
BOOL_TYPE_SMALL_INT | Non-boolean values | Integers (such as -2) not in {0, 1}: converting to an integer.
name: 't' type: BYTES int_domain { }
INT_TYPE_NOT_INT_STRING | Invalid values | String values that were not ints were found, such as "x".
name: 't' type: BYTES float_domain { }
FLOAT_TYPE_STRING_NOT_FLOAT | Invalid values | String values that were not floats were found, such as "x".
name: 't' type: BYTES string_domain { value: 'x' }
ENUM_TYPE_UNEXPECTED_STRING_VALUES | Unexpected string values | Examples contain values missing from the schema: y\\né (~33%).@
name: 't' type: BYTES bool_domain { true_value: 'x' }
BOOL_TYPE_UNEXPECTED_STRING | Non-boolean values | Saw unexpected value "y\né" instead of {"x"}.
name: 't' type: BYTES unique_constraints { min: 3 max: 9 }
FEATURE_TYPE_LOW_UNIQUE | Low number of unique values | Expected at least 3 unique values but found only 2.
name: 'f' type: FLOAT float_domain { min: 0 }
FLOAT_TYPE_SMALL_FLOAT | Out-of-range values | Unexpectedly low values: -1<0(upto six significant digits)
name: 'f' type: FLOAT float_domain { disallow_nan: true }
FLOAT_TYPE_HAS_NAN | Invalid values | Float feature has NaN values.
name: 'image/encoded' type: BYTES image_domain { max_image_byte_size: 2 }
MAX_IMAGE_BYTE_SIZE_EXCEEDED | Num bytes exceeds the max byte size. | The largest image has bytes: 3. The max allowed byte size is: 2.
"""  # noqa: E501
_LINES = TOLD.replace('"y\né"', '"y~é"').strip().splitlines()


@cases(*zip(_LINES[::2], _LINES[1::2], strict=True))
def test_what_does_not_fit_is_told_as_tfdv_tells_it(*, feature, told):
    kind, short, text = told.replace("~é", "\né").replace("@", " ").split(" | ")
    info = _found(feature)
    reasons = [anomalies_pb2.AnomalyInfo.Type.Name(reason.type) for reason in info.reason]
    assert (reasons, info.short_description, info.description) == ([kind], short, text)


@cases(
    "name: 'gone' type: INT", "name: 'gone' type: INT presence { min_count: 1 } lifecycle_stage: PLANNED",
    "name: 'a' type: BYTES deprecated: true",
    "name: 'a' type: INT int_domain { min: -2 max: 7 } presence { min_count: 3 min_fraction: 1 }",
    "name: 'a' type: INT shape { }",
    "name: 't' type: BYTES string_domain { value: 'x' } distribution_constraints {min_domain_mass: 0.6}",
)  # fmt: skip
def test_what_fits_is_not_told(*, feature):
    assert not _found(feature).reason


def test_reasons_add_up_for_features_that_are_current_and_for_the_number_of_examples():
    info = _found("name: 'image/encoded' type: BYTES string_domain { value: 'x' }")
    said = 'Data is marked as BYTES with incompatible domain_info: name: "image/encoded"\n'
    assert info.description == said
    domain = "string_domain { name: 'd' value: 'x' }"
    info = _found("name: 't' type: BYTES domain: 'd' presence { min_fraction: 1 }", domain)
    assert len(info.reason) == 2 and info.short_description == "Multiple errors"
    assert info.description == " ".join(reason.description for reason in info.reason)
    found = find_anomalies(make_statistics(RECORDS), schema_pb2.Schema())
    assert sorted(found.anomaly_info) == ["a", "f", "image/encoded", "new", "t"]
    assert is_current(schema_pb2.Feature()) and is_current(schema_pb2.Feature(lifecycle_stage="BETA"))
    assert not is_current(schema_pb2.Feature(lifecycle_stage="ALPHA"))
    schema = text_format.Parse("dataset_constraints { min_examples_count: 4 }", schema_pb2.Schema())
    found = find_anomalies(make_statistics(RECORDS), schema).dataset_anomaly_info
    assert found.description == "The dataset has 3 examples, which is fewer than expected."
    assert not find_anomalies(FeatureCounter().statistics(), schema_pb2.Schema()).anomaly_info
