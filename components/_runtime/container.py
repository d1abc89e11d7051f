"""The entry point of a step that runs on its own: arguments in, exit code out."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from components._runtime.bind import bind_arguments
from detection_core.errors import DetectionError

Job = TypeVar("Job")

EXIT_DONE, EXIT_CRASH, EXIT_USER_ERROR = 0, 1, 2


def main(job_type: type[Job], run: Callable[[Job], Any], argv: Sequence[str] | None = None) -> None:
    """Run one step and leave the process: 0 done, 2 an error the user can mend, 1 a crash with traceback."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname).1s %(message)s", stream=sys.stderr
    )
    try:
        run(bind_arguments(job_type, sys.argv[1:] if argv is None else argv))
    except DetectionError as e:
        logging.getLogger(__name__).error("%s: %s", type(e).__name__, e)
        sys.exit(EXIT_USER_ERROR)
    sys.exit(EXIT_DONE)
