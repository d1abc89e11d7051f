"""The entry point of a step in a container: arguments in, exit code out."""

import json
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from component_specs import JOBS
from component_specs.kfp_outputs import KFP_OUTPUTS, encode_results
from components.runtime.bind import bind_arguments
from components.runtime.kfp.call import bind_call, is_kfp_call, prepare, write_output
from detection_core.errors import EXIT_DONE, EXIT_USER_ERROR, DetectionError, as_user_error
from detection_core.extensions import load_extensions
from detection_core.quick_imports import import_quickly
from detection_core.redaction import CleanFormatter, clean_tracebacks
from detection_core.training.memory import keep_host_memory, peak_host_memory

Job = TypeVar("Job")


def main(job_type: type[Job], run: Callable[[Job], Any], argv: Sequence[str] | None = None) -> None:
    """Run one step and exit: 0 success, 2 an error that the user can fix, 1 a crash with traceback.

    Arguments are a Job's fields, as in `--field value`, or those of Kubeflow Pipelines. With fields, the
    output parameters are written to standard output as JSON.
    """
    clean_tracebacks()
    import_quickly()
    log_to_stderr()
    arguments = sys.argv[1:] if argv is None else list(argv)
    component = next(name for name, known in JOBS.items() if known is job_type)
    keep_host_memory()
    try:
        load_extensions()
        _run(component, job_type, run, arguments)
    except Exception as e:
        known = e if isinstance(e, DetectionError) else as_user_error(e)
        if known is None:
            raise
        logging.getLogger(__name__).error("%s: %s", type(known).__name__, known)
        sys.exit(EXIT_USER_ERROR)
    finally:
        logging.getLogger(__name__).info("peak memory | %.2f GB", peak_host_memory() / 1e9)
    sys.exit(EXIT_DONE)


def log_to_stderr() -> None:
    """Write what is logged in a container to standard error, without secrets."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CleanFormatter("%(asctime)s %(levelname).1s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _run(component: str, job_type: type[Job], run: Callable[[Job], Any], arguments: Sequence[str]) -> None:
    if is_kfp_call(arguments):
        call = bind_call(component, arguments)
        prepare(call)
        write_output(call, run(call.job))
        return
    report = run(bind_arguments(job_type, arguments))
    if KFP_OUTPUTS[component].results:
        sys.stdout.write(json.dumps(encode_results(component, report)) + "\n")
