"""Run a TensorFlow Lite file once in a child process before it is opened here.

LiteRT is native code: a damaged file may crash the process, exhaust its memory or hang. The child has limits
of memory and time, imports only LiteRT, and costs some tenths of a second and one inference.
"""

import contextlib
import functools
import signal
import subprocess
import sys

from detection_core.errors import ModelError
from detection_core.python_process import python_command, python_environment

TIMEOUT_SECONDS = 120.0
# Memory in addition to the file: LiteRT, its threads' stacks and the tensors of the largest detectors.
_MEMORY_BYTES = 4 * 2**30
_COPIES = 4
_REFUSED = 3


def try_tflite(content: bytes, *, where: str = "", threads: int = 1) -> None:
    """Run a verified file on noise, with LiteRT's own kernels and XNNPACK; `where` is its path, for errors.

    Raises:
        ModelError: if LiteRT refuses it, crashes, or takes too much memory or time.
    """
    reason = _trial(content, threads)
    if reason:
        raise ModelError(
            f"expected a file that LiteRT runs, found one that {reason}; export it again", where=where
        )


@functools.lru_cache(maxsize=64)
def _trial(content: bytes, threads: int) -> str:
    """Return an error text; "" if nothing failed."""
    try:
        done = subprocess.run(
            [*python_command(__name__), str(threads)],
            input=content,
            capture_output=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
            env=python_environment(),
        )
    except subprocess.TimeoutExpired:
        return f"has not run once after {TIMEOUT_SECONDS:g} seconds"
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"ends LiteRT natively ({signal.Signals(-done.returncode).name})"
    said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit {done.returncode}"]
    return f"it refuses ({said[0]})"


def _limit(size: int) -> None:
    """Limit this process's memory, and let the system kill it before its parent."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _MEMORY_BYTES + _COPIES * size
    resource.setrlimit(resource.RLIMIT_AS, (wanted if most < 0 else min(wanted, most), most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _run(content: bytes, threads: int) -> None:
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    for kind in (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, OpResolverType.AUTO):
        interpreter = Interpreter(
            model_content=content, num_threads=threads, experimental_op_resolver_type=kind
        )
        interpreter.allocate_tensors()
        for details in interpreter.get_input_details():
            noise = np.random.default_rng(0).integers(0, 127, details["shape"])
            interpreter.set_tensor(details["index"], noise.astype(details["dtype"]))
        interpreter.invoke()


def _main() -> int:
    content = sys.stdin.buffer.read()
    _limit(len(content))
    try:
        _run(content, int(sys.argv[1]))
    except (ValueError, RuntimeError, MemoryError, TypeError, OverflowError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print(first, file=sys.stderr)
        return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(_main())
