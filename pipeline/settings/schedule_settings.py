"""Settings of a schedule."""

from typing import Annotated

import pydantic

from detection_core.errors import ConfigError
from pipeline.schedule.trigger import Trigger, find_zone, make_trigger, require_future
from pipeline.settings.setting_types import Plain, Settings, Text, UnquotedText, between, from_factory
from pipeline.settings.validation_errors import contradictions


class ScheduleSettings(Settings):
    """Schedule of the workflow, on a cluster or on one machine."""

    name: Text = ""
    cron: UnquotedText = ""
    interval: UnquotedText = ""
    start: UnquotedText = ""
    end: UnquotedText = ""
    time_zone: Text = "UTC"
    max_concurrency: Annotated[int, between(1, 10)] = 1
    catch_up: bool = False
    paused: bool = False
    parameters: dict[Text, Plain] = from_factory(dict)

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
        """Return the schedule's trigger; ConfigError without `cron` and `interval`, or if it never fires."""
        try:
            trigger = self._trigger()
        except ConfigError as error:
            raise ConfigError(error.message, where=where) from error
        require_future(trigger, where)
        return trigger

    def _trigger(self) -> Trigger:
        return make_trigger(
            cron=self.cron, interval=self.interval, start=self.start, end=self.end, time_zone=self.time_zone
        )
