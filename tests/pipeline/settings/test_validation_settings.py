import pydantic

from pipeline.settings.validation_settings import ValidationSettings
from tests.support.refusals import not_refused


def test_only_what_differs_from_the_checks_defaults_is_handed_on_and_what_no_check_takes_is_refused():
    given = {"leakage": {"severity": "stop"}, "duplicates": {"threshold": 0.5}}
    assert ValidationSettings(checks=given).given_checks == given
    assert ValidationSettings().given_checks == {}
    cases = [
        ({"checks": {"leakage": {"severity": "never"}}}, "severity"),
        ({"checks": {"leakage": {"threshold": 2}}}, "contradict"),
        ({"checks": {"leak": {}}}, "leak"),
        ({"earlier_spans": -1}, "earlier_spans"),
        ({"near_duplicate_images": "many"}, "near_duplicate_images"),
    ]
    assert not not_refused(lambda given: ValidationSettings(**given), cases, pydantic.ValidationError)
