"""How long the image's steps take to start, against `import tensorflow` in the same image.

make image
.venv/bin/python benchmarks/container_start.py $(docker/build)
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time

from component_specs import JOBS

RESTRICTED = ("--user=13579", "--cap-drop=ALL", "--read-only", "--tmpfs=/tmp", "--network=none")


def seconds(image: str, program: tuple[str, ...], repetitions: int) -> float:
    """Return the median time of a `docker run`; the first, which fills the disk cache, is left out."""
    times = []
    for _ in range(repetitions + 1):
        start = time.monotonic()
        subprocess.run(
            ["docker", "run", "--rm", *RESTRICTED, image, "python", *program], check=True, capture_output=True
        )
        times.append(time.monotonic() - start)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("image")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    nothing = seconds(arguments.image, ("-c", "pass"), arguments.repetitions)
    tensorflow = seconds(arguments.image, ("-c", "import tensorflow"), arguments.repetitions)
    print(f"{'python -c pass':28} {nothing:6.2f} s")
    print(f"{'import tensorflow':28} {tensorflow:6.2f} s")
    for component in sorted(JOBS):
        # All that a step does before it reads its first input: the module with its imports, the arguments.
        taken = seconds(arguments.image, ("-m", f"components.{component}", "--help"), arguments.repetitions)
        print(f"{component:28} {taken:6.2f} s   {taken / tensorflow:5.2f} of import tensorflow")


if __name__ == "__main__":
    main()
