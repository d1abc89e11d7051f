"""Schedules of workflows: cron expressions, and the schedulers of one machine."""
