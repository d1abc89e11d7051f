"""Triggers of schedules, from the texts that a test gives."""

from pipeline.schedule.trigger import Trigger, make_trigger


def trigger(**given: str) -> Trigger:
    """Return a trigger in UTC, of nothing but what is given."""
    return make_trigger(**{"cron": "", "interval": "", "start": "", "end": "", "time_zone": "UTC", **given})
