"""One hostile case: what is made, what is called, and what may come of it."""

import dataclasses
import random
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

OK, ERROR, QUARANTINE, USAGE = "ok", "error", "quarantine", "usage"
REFUSED = (ERROR, USAGE)
EITHER = (OK, ERROR)
ANY = (OK, ERROR, QUARANTINE)

Build = Callable[[Path, random.Random], object]


@dataclasses.dataclass(frozen=True)
class Case:
    """A call of the command line or of a step with hostile input.

    Attributes:
        name: its kind, a slash and what is wrong.
        command: module that `python -m` runs, and arguments; {in} is the folder of what was built, {out} an
            empty one, {server} the address of the server.
        build: fills the folder {in}; all chance comes from its second argument.
        expect: outcomes that are right: `ok`, `error` (exit code 2, one line), `usage`, `quarantine` (ok or
            an error, with the record in quarantine.jsonl), `exit N`.
        megabytes: memory that it may take beyond what imports take.
        seconds: time that it may take on a busy machine.
        env: variables to set.
        fresh: a new interpreter runs it, as the verb watches its process only before TensorFlow is loaded.
        server: answers the requests of a loopback server, given a connection and the head of a request.
        secrets: texts that no output and no file below {out} may hold.
        check: given {in}, {out} and the output, returns what else is wrong; "" where nothing is.
    """

    name: str
    command: tuple[str, ...]
    build: Build = lambda folder, chance: None
    expect: tuple[str, ...] = (ERROR,)
    megabytes: int = 700
    seconds: float = 60.0
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fresh: bool = False
    server: Callable[[socket.socket, bytes], None] | None = None
    secrets: tuple[str, ...] = ()
    check: Callable[[Path, Path, str], str] | None = None

    @property
    def kind(self):
        """What its results are counted under."""
        return self.name.partition("/")[0]


def detflow(*arguments):
    """Return the call of a verb."""
    return ("pipeline.cli", *arguments)


def step(name, **fields):
    """Return the call of a step."""
    return (f"components.{name}", *(word for key, value in fields.items() for word in (f"--{key}", value)))


def using(write, *arguments, **fields):
    """Return a `build` that calls a function with the folder and these arguments."""
    return lambda folder, chance: write(folder, *arguments, **fields)


def put(path, content):
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return path
