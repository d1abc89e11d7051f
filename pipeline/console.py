"""Terminal output and log handlers, set up at the entry points only."""

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from detection_core.errors import EXIT_USER_ERROR, DetectionError
from detection_core.redaction import CleanFormatter, clean, clean_tracebacks

_OURS = ("pipeline", "components", "component_specs", "detection_core")


class _Ours(logging.Filter):
    """Passes messages of this project, and only errors of other libraries."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name.split(".")[0] in _OURS or record.levelno >= logging.ERROR


class _Terminal(logging.StreamHandler[TextIO]):
    """Writes to a terminal or a pipe; drops output once the pipe is closed."""

    def handleError(self, record: logging.LogRecord) -> None:
        if isinstance(sys.exc_info()[1], BrokenPipeError):
            _drop(self.stream)
        else:
            super().handleError(record)


def write_line(text: str, stream: TextIO | None = None, *, is_clean: bool = False) -> None:
    """Write a result without secrets and control sequences; ignore a closed pipe.

    The text has no final newline. If `is_clean`, it is already sanitised, and its styles are kept.
    """
    stream = stream or sys.stdout
    try:
        print(text if is_clean else clean(text), file=stream, flush=True)
    except BrokenPipeError:
        _drop(stream)


def write_error(error: DetectionError, *, as_json: bool) -> int:
    """Write an error that the user can fix, and return the exit code.

    With `as_json` it is written as a result for scripts.
    """
    kind, message = type(error).__name__, str(error)
    if as_json:
        write_line(json.dumps({"error": kind, "message": message}, indent=1))
    else:
        write_line(f"detflow: {kind}: {message}", sys.stderr)
    return EXIT_USER_ERROR


def end_output() -> None:
    """Flush standard output; ignore a closed pipe."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    """Redirect a closed pipe to the null device, so that Python does not report it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, stream.fileno())
        os.close(sink)


def start_logging(*, quiet: bool = False) -> None:
    """Log our messages to standard error, one plain line each.

    With `quiet`, for `--json`, only warnings and errors.
    """
    # TensorFlow's C++ code reads these once, at import.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    clean_tracebacks()
    handler = _Terminal(sys.stderr)
    handler.setFormatter(CleanFormatter("%(message)s"))
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    handler.addFilter(_Ours())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)


@contextlib.contextmanager
def file_log(path: str) -> Iterator[None]:
    """Copy the log to a file during a `with` block, with time and level."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname).1s %(name)s | %(message)s"))
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def native_output_to(path: str) -> Iterator[None]:
    """Redirect the standard error of C++ libraries to a file, away from the progress lines.

    TensorFlow, LiteRT and gRPC bypass Python's streams. Python's standard error, with messages and
    tracebacks, still goes to the terminal.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    before = sys.stderr
    before.flush()
    kept = os.dup(2)
    with open(path, "ab") as sink, os.fdopen(os.dup(kept), "w", buffering=1) as terminal:
        os.dup2(sink.fileno(), 2)
        sys.stderr = terminal
        _move_handlers(before, terminal)
        try:
            yield
        finally:
            _move_handlers(terminal, before)
            sys.stderr = before
            os.dup2(kept, 2)
            os.close(kept)


def _move_handlers(old: TextIO, new: TextIO) -> None:
    for handler in logging.root.handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            handler.setStream(new)
