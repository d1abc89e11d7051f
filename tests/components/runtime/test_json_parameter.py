import pytest

from components.runtime.json_parameter import parse_json, shorten
from detection_core.errors import ConfigError


def test_json_is_read():
    assert parse_json('{"a": [1, null]}', "overrides") == {"a": [1, None]}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, f'{{"a": {"9" * 5000}}}'])
def test_what_python_cannot_read_is_refused_by_the_parameter_s_name_and_briefly(text):
    with pytest.raises(ConfigError, match="overrides: expected a JSON object, found") as error:
        parse_json(text, "overrides")
    assert len(str(error.value)) < 600


def test_a_long_value_is_shown_by_its_beginning():
    assert shorten({"a": 1}) == "{'a': 1}"
    assert shorten("x" * 1000).endswith("x... (1,002 characters)")
