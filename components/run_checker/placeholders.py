"""Placeholders in the parameters of a run, in the notation of Kubeflow's schedules: `[[ScheduledTime]]`.

No Kubeflow server fills them for a schedule that pins its pipeline version. Its driver only fills a parameter
that consists of `{{$.pipeline_job_schedule_time_utc}}` or `{{$.pipeline_job_uuid}}`. From these two values
RunChecker fills our placeholders for every step. Local runs work the same way.

Times are formatted by a Go layout, `2006-01-02 15:04:05`. The layout shows the reference time, Monday, 2
January 2006, 15:04:05 in UTC-7; see https://pkg.go.dev/time#pkg-constants.
"""

import dataclasses
import datetime
import difflib
import re
from collections.abc import Collection

from detection_core.errors import ConfigError

# A time may be followed by a layout in Go's notation: `[[ScheduledTime.2006-01-02]]`.
TIMES = ("ScheduledTime", "CurrentTime")
NAMES = (*TIMES, "RunUUID")
_REFUSED = {"Index": "no step is given the number of its run"}
_LAYOUT = "20060102150405"
_PATTERN = re.compile(r"\[\[([A-Za-z]\w*)(?:\.([^\]]*))?\]\]")
_UNFILLED = "{{$"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunValues:
    """The values of placeholders.

    Attributes:
        scheduled_time: RFC 3339 time of the schedule's slot, or of creation for an unscheduled run. If the
            server did not fill it, it is still the placeholder, or empty. Kubeflow Pipelines 2.16 never sets
            it (`v2/driver/resolve.go`, whose option is unused before 2.17).
        current_time: time of the check, with a time zone.
        run_id: id of the run; possibly unfilled like `scheduled_time`.
    """

    scheduled_time: str
    current_time: datetime.datetime
    run_id: str


def has_placeholder(text: str) -> bool:
    """Tell whether a text contains a placeholder, known or not."""
    return _PATTERN.search(text) is not None


def before_placeholder(path: str) -> str:
    """Return the part of a path before its first placeholder; the whole path without one."""
    match = _PATTERN.search(path)
    return (path[: match.start()].rpartition("/")[0] or "/") if match else path


def asks_for_value(text: str, names: Collection[str] = (*NAMES, *_REFUSED)) -> bool:
    """Tell whether a text contains a placeholder of Kubeflow, or one of the given ones."""
    return any(match[1] in names for match in _PATTERN.finditer(text))


def check_placeholders(text: str, where: str) -> None:
    """Refuse a text with a placeholder that cannot be filled; `where` is the parameter.

    Raises:
        ConfigError: naming the placeholder and the available ones.
    """
    for match in _PATTERN.finditer(text):
        name, layout = match.groups()
        if name in _REFUSED:
            raise ConfigError(
                f"{match.group()} cannot be filled, as {_REFUSED[name]}; there are {', '.join(NAMES)}",
                where=where,
            )
        if name not in NAMES or (layout is not None and name not in TIMES):
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean [[{near[0]}]]?" if near else f"there are {', '.join(NAMES)}"
            raise ConfigError(f"no placeholder {match.group()}; {hint}", where=where)


def fill_placeholders(text: str, values: RunValues, where: str) -> str:
    """Return a text with placeholders filled, times in UTC; ConfigError for an unknown or empty one."""
    check_placeholders(text, where)
    return _PATTERN.sub(lambda match: _value(match, values, where), text)


def _value(match: re.Match[str], values: RunValues, where: str) -> str:
    name, layout = match.groups()
    if name == "RunUUID":
        return _filled(values.run_id, match.group(), where)
    moment = values.current_time
    if name == "ScheduledTime":
        moment = _moment(_filled(values.scheduled_time, match.group(), where), where)
    return format_time(moment, _LAYOUT if layout is None else layout)


def _filled(value: str, placeholder: str, where: str) -> str:
    if not value or value.startswith(_UNFILLED):
        raise ConfigError(
            f"expected a value for {placeholder} from the server, found {value or 'none'!r}; use Kubeflow"
            " Pipelines 2.17 or newer, or give the value itself",
            where=where,
        )
    return value


def _moment(text: str, where: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as e:
        raise ConfigError(
            f"expected the scheduled time as RFC 3339, such as 2030-01-31T03:00:00Z, found {text!r}",
            where=where,
        ) from e
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


# Elements of a layout, tried in this order at each place, to formats of C's strftime. The names are English:
# the locale of times in Python is "C".
_ELEMENTS = {
    "January": "%B", "Jan(?![a-z])": "%b", "Monday": "%A", "Mon(?![a-z])": "%a", "MST": "UTC",
    "002": "%j", "01": "%m", "02": "%d", "03": "%I", "04": "%M", "05": "%S", "06": "%y", "15": "%H",
    "1": "%-m", "2006": "%Y", "__2": "%_j", "_2006": "_%Y", "_2": "%e", "2": "%-d", "3": "%-I", "4": "%-M",
    "5": "%-S", "PM": "%p", "pm": "%P", "-070000": "+000000", "-07:00:00": "+00:00:00", "-0700": "+0000",
    "-07:00": "+00:00", "-07": "+00", "Z070000|Z07:00:00|Z0700|Z07:00|Z07": "Z",
}  # fmt: skip
_FORMATS = tuple(_ELEMENTS.values())
# Fractions of a second, which are zero here. With nines, Go omits trailing zeros and the point.
_FRACTION = r"(?P<zeros>[.,]0+(?!\d))|(?P<nines>[.,]9+(?!\d))"
_LAYOUT_WORDS = re.compile("|".join([*(f"({pattern})" for pattern in _ELEMENTS), _FRACTION]))


def format_time(moment: datetime.datetime, layout: str) -> str:
    """Format a time, in UTC and to the second, by a Go layout with elements of the reference time."""
    utc = moment.astimezone(datetime.UTC)

    def element(match: re.Match[str]) -> str:
        if match["zeros"]:
            return match["zeros"]
        if match["nines"]:
            return ""
        assert match.lastindex is not None
        return utc.strftime(_FORMATS[match.lastindex - 1])

    return _LAYOUT_WORDS.sub(element, layout)
