import functools

from detection_core.errors import ConfigError
from pipeline.settings.settings_file import load_settings
from tests.support.refusals import not_refused


def test_the_section_is_checked_when_the_file_is_read(digits_settings):
    settings = load_settings(digits_settings, ["schedule.cron=@daily", "schedule.start=2030-01-01T00:00:00Z"])
    assert settings.schedule.trigger("x").cron.text == "@daily"
    cases = [
        (["schedule.cron=0 3 * * *"], r"schedule.cron: expected six fields.*Write '0 0 3 \* \* \*'"),
        (["schedule.interval=6"], "schedule.interval: expected a time such as 90m"),
        (["schedule.max_concurrency=11"], "schedule.max_concurrency: expected 1 to 10, found 11"),
    ]
    assert not not_refused(functools.partial(load_settings, digits_settings), cases, ConfigError)
    over = ["schedule.cron=@daily", "schedule.end=2020-01-01T00:00:00Z"]
    assert load_settings(digits_settings, over), "the rest of the file can be used"


def test_times_may_stand_in_the_file_as_yaml_has_them(digits_settings):
    with open(digits_settings, "a", encoding="utf-8") as f:
        f.write('schedule:\n  cron: "0 0 3 * * *"\n  start: 2030-01-01T00:00:00+01:00\n')
    trigger = load_settings(digits_settings).schedule.trigger("x")
    assert trigger.start.isoformat() == "2030-01-01T00:00:00+01:00"
