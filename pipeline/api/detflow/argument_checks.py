"""Numbers that arguments may be; everything else is refused with the argument's name."""

from __future__ import annotations

from detection_core.errors import ConfigError, shorten


def check_count(name: str, count: object) -> None:
    """Refuse what is no whole number of 1 or more.

    Raises:
        ConfigError: naming the argument.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ConfigError(f"expected a whole number of 1 or more, found {shorten(count)}", where=name)


def check_counts(**counts: object) -> None:
    """Refuse what is no whole number of 1 or more; None stands for no bound.

    Raises:
        ConfigError: naming the argument.
    """
    for name, count in counts.items():
        if count is not None:
            check_count(name, count)


def is_number(value: object) -> bool:
    """Tell whether a value is a number, which `True` is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
