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

    Its command is the module that `python -m` runs, and arguments; {in} is the folder of what was built,
    {out} an empty one, {server} the address of the server. Outcomes are `ok`, `error` (exit code 2, one
    line), `usage`, `quarantine` (ok or an error, with the record in quarantine.jsonl), `exit N`.
    """

    name: str  # its kind, a slash and what is wrong
    command: tuple[str, ...]
    build: Build = lambda folder, chance: None  # fills {in}; all chance comes from its second argument
    expect: tuple[str, ...] = (ERROR,)  # outcomes that are right
    megabytes: int = 700  # memory that it may take beyond what imports take
    seconds: float = 60.0  # on a busy machine
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fresh: bool = False  # in a new interpreter: the verb watches its process before TensorFlow is loaded
    server: Callable[[socket.socket, bytes], None] | None = None  # given a connection and a request's head
    secrets: tuple[str, ...] = ()  # texts that no output and no file below {out} may hold
    check: Callable[[Path, Path, str], str] | None = None  # given {in}, {out}, the output; tells faults

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


def altered(data, chance, counts, start=0, end=None):
    """Return bytes of which as many as one of the counts are random ones, between two places."""
    data = bytearray(data)
    for _ in range(chance.choice(counts)):
        data[chance.randrange(start, end or len(data))] = chance.randrange(256)
    return bytes(data)


def put(path, content):
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return path
