import json

from hypothesis import given
from hypothesis import strategies as st

from detection_core.config.automl import hparams_text
from detection_core.config.automl.defaults import DEFAULTS, model_values
from detection_core.config.automl.hparams_text import apply_overrides, read_overrides, split_run_settings
from detection_core.errors import ConfigError
from tests.detection_core.config.automl.facts import changed, load_facts
from tests.support.cases import cases, refused

FACTS = load_facts("hparams")


def overridden(hparams, base="efficientdet-d0"):
    values = model_values(base)
    return changed(apply_overrides(values, read_overrides(hparams)), values)


@cases(*FACTS["override_string_cases"])
def test_a_text_is_accepted_or_refused_as_theirs_is(*, case):
    given = (case["string"], case["base"])
    if "raises" in case:
        refused(ConfigError, r"^hparams[.\w]*: expected .*, found .*; ", overridden, *given)
    else:
        assert overridden(*given) == case["result"]


@cases(*(c for c in FACTS["override_other_cases"] if "allow_new_keys" not in c["value"]))
def test_a_table_is_accepted_or_refused_as_theirs_is(*, case):
    value = json.loads(case["value"])
    if value is None:  # theirs refuses None; here it is what a flag that was not given holds
        assert overridden(value) == {}
    elif "raises" in case:
        refused(ConfigError, "hparams: expected", overridden, value)
    else:
        assert overridden(value) == case["result"]


def test_a_yaml_file_is_read_as_theirs_is_and_pieces_of_a_table_merge(tmp_path):
    case = FACTS["override_yaml_case"]
    path = tmp_path / "mine.yaml"
    path.write_text(case["yaml"], encoding="utf-8")
    assert overridden(str(path)) == overridden(case["yaml"]) == case["result"]
    found = hparams_text.parse_pairs("label_map.1=a,label_map.2=b,num_classes=3,num_classes=4")
    assert found == {"label_map": {"1": "a", "2": "b"}, "num_classes": 4}
    assert split_run_settings({"batch_size": 8, "num_classes": 3}) == ({"num_classes": 3}, {"batch_size": 8})
    assert not set(split_run_settings(DEFAULTS)[1])


@cases(
    ("aspect_ratios=[1.0,2.0]", r"found '2\.0\]'.*write a list as aspect_ratios=1\.0\*2\.0\*0\.5"),
    ("num_clases=3", r"^hparams: .*'num_clases'; did you mean num_classes\?"),
    ("nms_configs.metod=hard", r"^hparams\.nms_configs: .*'metod'; did you mean method\?"),
    ("nowhere.yaml", r"nowhere\.yaml"),
)
def test_an_error_says_what_to_write(*, text, message):
    refused(ConfigError, message, overridden, text)


FLAT = st.sampled_from([name for name in DEFAULTS if name != "nms_configs"])


@given(st.dictionaries(FLAT, st.integers() | st.booleans()))
def test_pairs_of_any_fields_come_back(values):
    text = ",".join(f"{key}={value}" for key, value in values.items())
    assert read_overrides(text) == values


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_one_clear_error(text):
    try:
        apply_overrides(model_values("efficientdet-d0"), read_overrides(text))
    except ConfigError as error:
        assert "expected" in str(error) or "cannot read" in str(error)
