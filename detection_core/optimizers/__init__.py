"""Learning-rate schedules and moving averages of weights."""
