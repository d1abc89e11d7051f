"""When a workflow runs by itself: cron expressions, and the schedulers of one machine."""
