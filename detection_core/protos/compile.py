"""Compile the .proto files of this folder: `python -m detection_core.protos.compile [--check]`.

The generated modules are checked in, so that nobody needs a compiler to use them. `--check` compiles into a
temporary folder and fails when the files here differ from what the .proto files give.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SOURCE_ROOT = FOLDER.parents[1]
PACKAGE_PATH = FOLDER.relative_to(SOURCE_ROOT)


def compile_protos(output_root: Path) -> list[Path]:
    """Compile every .proto file of this folder to a module and its type stub; return these files, sorted.

    `output_root` takes the place of the source root; it must exist.

    Raises:
        RuntimeError: when the compiler refuses a file; it has then said why on stderr.
    """
    sources = sorted(str(path) for path in FOLDER.glob("*.proto"))
    arguments = [f"--proto_path={SOURCE_ROOT}", f"--python_out={output_root}", f"--pyi_out={output_root}"]
    # In a separate process: beside TensorFlow in one process, the compiler's own protobuf crashes.
    done = subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments, *sources], check=False)
    if done.returncode != 0:
        raise RuntimeError(f"protoc ended with status {done.returncode}")
    return sorted(_generated(output_root / PACKAGE_PATH))


def drifted_files() -> list[str]:
    """Name the generated files here that are missing, left over, or not what the .proto files give."""
    with tempfile.TemporaryDirectory() as temporary:
        fresh = {path.name: path.read_bytes() for path in compile_protos(Path(temporary))}
    present = {path.name: path.read_bytes() for path in _generated(FOLDER)}
    return sorted(name for name in fresh.keys() | present.keys() if fresh.get(name) != present.get(name))


def recompile() -> list[Path]:
    """Replace the generated files here; those without a .proto file any more are removed."""
    with tempfile.TemporaryDirectory() as temporary:
        fresh = compile_protos(Path(temporary))
        names = {path.name for path in fresh}
        for stale in [path for path in _generated(FOLDER) if path.name not in names]:
            stale.unlink()
        return [Path(shutil.copyfile(path, FOLDER / path.name)) for path in fresh]


def _generated(folder: Path) -> list[Path]:
    return [*folder.glob("*_pb2.py"), *folder.glob("*_pb2.pyi")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m detection_core.protos.compile", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a file would change")
    options = parser.parse_args(arguments)
    if not options.check:
        sys.stdout.write(f"{len(recompile())} files written to {FOLDER}\n")
        return 0
    drifted = drifted_files()
    for name in drifted:
        sys.stderr.write(f"{PACKAGE_PATH / name} differs from its .proto file\n")
    if drifted:
        sys.stderr.write("run: python -m detection_core.protos.compile\n")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main())
