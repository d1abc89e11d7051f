"""Optional capabilities: each can be deleted with its line in the table, and everything else still works."""

import re
import shutil
import subprocess
import sys

import pytest

from detection_core.capabilities import CAPABILITIES, capability, has_capability
from detection_core.errors import ConfigError
from tests.support.cases import refused
from tests.support.import_closure import ROOT

PACKAGES = ("detection_core", "component_specs", "components", "pipeline")
# Each copy is looked at in a child of one process, which has imported what takes long: all modules where no
# capability is left, and where one is missing those of the others. What is left out are entry points, and
# modules of extras that not every machine has.
CHECK = """
import contextlib, importlib, io, os, pathlib, sys
import kfp, tensorflow, tf_keras

def check(packages):
    from pipeline.cli.parser import main
    from pipeline.cli.parser import VERBS

    import detection_core
    assert detection_core.__file__.startswith(os.getcwd()), detection_core.__file__
    for package in packages:
        for path in sorted(pathlib.Path(package).rglob("*.py")):
            name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            apart = name.startswith(("pipeline.api", "detection_core.protos.compile"))
            if path.name != "__main__.py" and not apart:
                try:
                    importlib.import_module(name)
                except ModuleNotFoundError as error:  # packages of others may be missing here
                    if error.name.startswith(("detection_core", "component", "pipeline")):
                        raise
    verbs = [[], *([verb.name] for verb in VERBS)]
    verbs += [[verb.name, below.name] for verb in VERBS for below in getattr(verb, "verbs", ())]
    for words in verbs:
        with contextlib.redirect_stdout(io.StringIO()) as text:
            try:
                main([*words, "--help"])
            except SystemExit as ended:
                assert ended.code == 0 and "usage: detflow" in text.getvalue(), words

for folder in sys.argv[2:]:
    child = os.fork()
    if not child:
        os.chdir(folder)
        sys.path.insert(0, folder)
        try:
            check(sys.argv[1].split(",") if folder == sys.argv[2] else ["detection_core/optional"])
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print("fails without", os.path.basename(folder))
"""


def test_the_folders_are_those_of_the_table_and_an_unknown_one_is_refused():
    folders = {path.parent.name for path in (ROOT / "detection_core/optional").glob("*/__init__.py")}
    assert folders == set(CAPABILITIES)
    assert not has_capability("telepathy")
    refused(ConfigError, "capability telepathy, found an installation without it", capability, "telepathy")


@pytest.mark.slow
def test_everything_else_works_without_a_capability(tmp_path):
    copies = [_copy_without(CAPABILITIES, tmp_path / "any")]
    copies += [_copy_without([name], tmp_path / name) for name in CAPABILITIES]
    command = [sys.executable, "-c", CHECK, ",".join(PACKAGES), *map(str, copies)]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr[-3000:]


def _copy_without(names, folder):
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    table = folder / "detection_core/capabilities.py"
    for name in names:
        shutil.rmtree(folder / "detection_core/optional" / name)
        text, count = re.subn(rf'    "{name}": .*\n', "", table.read_text())
        assert count == 1
        table.write_text(text)
    return folder
