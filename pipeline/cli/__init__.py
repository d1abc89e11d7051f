"""The command line `detflow`."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code.

    Without `argv` the arguments are those of this process, which an interruption ends. Verbs that open models
    then run in a child process.
    """

    def run() -> int:
        from pipeline.cli.parser import main as run_verb

        return run_verb(argv)

    if argv is not None:
        return run()
    try:
        from detection_core.quick_imports import import_quickly
        from pipeline.cli.supervisor import supervise
        from pipeline.interruption import run_program
        from pipeline.local import UNUSED_BY_TFX

        import_quickly(UNUSED_BY_TFX)
        ended = supervise(sys.argv[1:])
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    return run_program(run) if ended is None else ended
