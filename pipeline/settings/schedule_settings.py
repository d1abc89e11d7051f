"""Settings of a schedule."""

from typing import Annotated

import pydantic

from detection_core.errors import ConfigError
from pipeline.schedule.trigger import Trigger, find_zone, make_trigger
from pipeline.settings.setting_types import Plain, Settings, Text, UnquotedText, between, setting
from pipeline.settings.validation_errors import contradictions


class ScheduleSettings(Settings):
    """Schedule of the workflow, on a cluster or on one machine."""

    name: Text = setting("", "Name of the schedule, by which it is found again.", unset="the workflow's name")
    cron: UnquotedText = setting(
        "",
        "Six fields, seconds first, or a short form such as `@daily`; see [schedules](kubeflow.md#schedule).",
        examples=["0 0 3 * * 0", "@daily"],
    )
    interval: UnquotedText = setting(
        "", "Time from one run to the next, in place of `cron`.", examples=["90m", "6h", "1d"]
    )
    start: UnquotedText = setting(
        "",
        "Nothing runs before it; RFC 3339 with a zone.",
        unset="at once",
        examples=["2030-01-31T03:00:00Z"],
    )
    end: UnquotedText = setting("", "Nothing runs after it; RFC 3339 with a zone.", unset="never")
    time_zone: Text = setting(
        "UTC",
        "IANA name of the time zone of the local scheduler and of printed times. A cluster has another"
        " setting.",
        examples=["Europe/Paris"],
    )
    max_concurrency: Annotated[int, between(1, 10)] = setting(
        1, "Runs at the same time on a cluster.", unit="runs"
    )
    catch_up: bool = setting(
        False, "True: after an outage or a pause, a cluster runs all missed slots. False: only the last one."
    )
    paused: bool = setting(False, "Whether the schedule is created paused.")
    parameters: dict[Text, Plain] = setting(
        dict,
        "Pipeline parameter to value, for the scheduled runs; texts may hold"
        " [placeholders](kubeflow.md#placeholders).",
        examples=[{"data_path": "/data/[[ScheduledTime]]"}],
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> "ScheduleSettings":
        """Refuse an invalid section; it may lack both `cron` and `interval`."""
        try:
            if self.cron or self.interval:
                self._trigger()
            else:
                find_zone(self.time_zone)
        except ConfigError as error:
            key = error.where.removeprefix("schedule").removeprefix(".")
            raise contradictions([(key, error.message)]) from error
        return self

    def trigger(self, where: str) -> Trigger:
        """Return the trigger of the schedule; ConfigError without `cron` and `interval`."""
        try:
            return self._trigger()
        except ConfigError as error:
            raise ConfigError(error.message, where=where) from error

    def _trigger(self) -> Trigger:
        return make_trigger(
            cron=self.cron, interval=self.interval, start=self.start, end=self.end, time_zone=self.time_zone
        )
