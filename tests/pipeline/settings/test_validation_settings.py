from __future__ import annotations

import pydantic
import pytest

from pipeline.settings.validation_settings import ValidationSettings


def test_only_what_differs_from_the_checks_defaults_is_handed_on():
    given = {"leakage": {"severity": "stop"}, "duplicates": {"threshold": 0.5}}
    assert ValidationSettings(checks=given).given_checks == given
    assert ValidationSettings().given_checks == {}


@pytest.mark.parametrize(
    "values",
    [
        {"checks": {"leakage": {"severity": "never"}}},
        {"checks": {"leakage": {"threshold": 2}}},
        {"checks": {"leak": {}}},
        {"earlier_spans": -1},
        {"near_duplicate_images": "many"},
    ],
)
def test_what_no_check_takes_is_refused(values):
    with pytest.raises(pydantic.ValidationError):
        ValidationSettings(**values)
