"""The settings of a schedule: when the workflow runs by itself."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from detection_core.errors import ConfigError
from pipeline.schedule.trigger import Trigger, find_zone, make_trigger
from pipeline.settings.settings_values import between

_TEXT = {"text": True}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScheduleSettings:
    """When the workflow runs by itself, on a cluster or on one machine.

    Attributes:
        name: by which the schedule is found again; empty: the workflow's.
        cron: six fields, seconds first; or a name such as `@daily`.
        interval: time from one run to the next, such as `6h`, in place of `cron`.
        start: RFC 3339 time with a zone; nothing runs before it.
        end: RFC 3339 time with a zone; nothing runs after it.
        time_zone: IANA name, for one machine and for what is shown; a cluster has its own.
        max_concurrency: runs at the same time on a cluster, 1 to 10.
        catch_up: whether a cluster makes up for all slots missed while it was down or the schedule paused,
            and not for the last one alone.
        paused: whether the schedule is created paused.
        parameters: pipeline parameter to value, for the scheduled runs; texts may hold placeholders.
    """

    name: str = ""
    cron: str = dataclasses.field(default="", metadata=_TEXT)
    interval: str = dataclasses.field(default="", metadata=_TEXT)
    start: str = dataclasses.field(default="", metadata=_TEXT)
    end: str = dataclasses.field(default="", metadata=_TEXT)
    time_zone: str = "UTC"
    max_concurrency: Annotated[int, between(1, 10)] = 1
    catch_up: bool = False
    paused: bool = False
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)

    def check(self, where: str) -> None:
        """Refuse a section that no schedule could be made of; one that says nothing of when is left alone.

        Args:
            where: the settings file, for messages.

        Raises:
            ConfigError: naming the key.
        """
        find_zone(self.time_zone, where)
        if self.cron or self.interval:
            self.trigger(where)

    def trigger(self, where: str) -> Trigger:
        """Check the section and return when it fires.

        Args:
            where: the settings file, for messages.

        Raises:
            ConfigError: naming the key.
        """
        if not 1 <= self.max_concurrency <= 10:
            raise ConfigError(
                f"schedule.max_concurrency: expected 1 to 10, found {self.max_concurrency}", where=where
            )
        return make_trigger(
            cron=self.cron,
            interval=self.interval,
            start=self.start,
            end=self.end,
            time_zone=self.time_zone,
            where=where,
        )
