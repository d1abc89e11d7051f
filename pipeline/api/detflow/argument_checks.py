"""Checks of numeric arguments."""

from detection_core.errors import ConfigError, shorten


def check_count(name: str, count: object) -> None:
    """Refuse a value that is not an integer of at least 1; ConfigError names the argument."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigError(f"expected a whole number of 1 or more, found {shorten(count)}", where=name)


def check_counts(**counts: object) -> None:
    """Refuse values that are neither None nor an integer of at least 1; ConfigError names the argument."""
    for name, count in counts.items():
        if count is not None:
            check_count(name, count)


def is_number(value: object) -> bool:
    """Tell whether a value is a number; bools are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
