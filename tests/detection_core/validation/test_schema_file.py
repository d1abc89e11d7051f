from detection_core.errors import ConfigError
from detection_core.validation.schema_file import parse_schema, read_schema_text, unchecked_constraints
from tests.support.cases import cases, refused

FITS = 'feature { name: "a" type: INT presence { min_fraction: 1 } int_domain { min: 0 } }'


def test_a_schema_is_read_as_it_stands_and_what_is_not_checked_is_told(tmp_path):
    path = tmp_path / "schema.pbtxt"
    path.write_text(f"# curated\n{FITS}\n")
    assert read_schema_text(str(path)) == path.read_text()
    assert parse_schema(path.read_text(), "x").feature[0].int_domain.min == 0
    assert parse_schema("feature { name: 'a' deprecated: true }", "x").feature
    assert "none.pbtxt" in str(refused(ConfigError, "", read_schema_text, str(tmp_path / "none.pbtxt")))
    text = (
        "feature { name: 'a' type: INT drift_comparator { infinity_norm { threshold: 0.1 } } }"
        " feature { name: 'b' type: BYTES in_environment: 'SERVING' group_presence { required: true } }"
        " feature { name: 'c' type: BYTES image_domain { minimum_supported_image_fraction: 0.5 } }"
        " dataset_constraints { num_examples_drift_comparator { min_fraction_threshold: 1 } }"
        " default_environment: 'TRAINING'"
    )
    of_a_feature = ["drift_comparator of a", "group_presence of b", "in_environment of b"]
    of_a_feature += ["minimum_supported_image_fraction of c"]
    expected = ["default_environment", *of_a_feature, "num_examples_drift_comparator"]
    assert unchecked_constraints(parse_schema(text, "x")) == expected
    assert unchecked_constraints(parse_schema(FITS, "x")) == []


@cases(
    ("", "expected a feature"), ("feature { nam: 'a' }", "nam"), ("feature { type: INT }", "expected a name"),
    ("feature { name: 'a' }", "feature 'a': expected a type"), (FITS + FITS, "found 'a' 2 times"),
    ("feature { name: 'a' type: INT presence { min_fraction: 2 } }", "from 0 to 1, found 2"),
    ("feature { name: 'a' type: INT value_count { min: 3 max: 2 } }", "found min 3, max 2"),
    ("feature { name: 'a' type: FLOAT int_domain { } }", "found it at FLOAT"),
    ("feature { name: 'a' type: BYTES domain: 'd' }", "expected the string_domain 'd'"),
    ("feature { name: 'a' type: INT distribution_constraints { } }", "beside a domain of texts"),
    ("feature { name: 'a' type: BYTES bool_domain {true_value: '1' false_value: '1'}}", "'1' for both"),
    ("\xff\x00", "schema"),
)  # fmt: skip
def test_a_schema_that_says_nothing_or_contradicts_itself_is_refused(*, text, expected):
    assert "schema.pbtxt" in str(refused(ConfigError, expected, parse_schema, text, "schema.pbtxt"))
