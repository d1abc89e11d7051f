import subprocess
import sys
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from detection_core.errors import ModelError
from detection_core.evaluation import tflite_trial
from detection_core.evaluation.tflite_runner import Normalisation, TFLiteRunner
from detection_core.evaluation.tflite_trial import try_tflite
from detection_core.tasks.file_benchmark import BenchOptions, bench
from tests.support.bare_tflite import packed
from tests.support.cases import cases, refused
from tests.support.tiny_files import integer_file


def with_scales(content: bytes, value: float) -> bytes:
    """The file with one scale for every tensor that has any."""
    model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    for tensor in model.subgraphs[0].tensors:
        if tensor.quantization is not None and tensor.quantization.scale is not None:
            tensor.quantization.scale = np.full(len(tensor.quantization.scale), value, np.float32)
    return packed(model)


def test_a_whole_file_passes():
    try_tflite(integer_file())
    try_tflite(integer_file(), threads=2)


@cases(float("inf"), -1.0, 1e-38)
def test_damaged_quantization_is_one_message_for_every_user(tmp_path, *, value):
    path = tmp_path / "damaged.tflite"
    path.write_bytes(with_scales(integer_file(), value))
    for use in (
        lambda: TFLiteRunner(str(path), normalisation=Normalisation(mean=(127.5,), std=(127.5,))),
        lambda: bench([str(path)], BenchOptions(threads=(1,), runs=1)),
    ):
        error = refused(ModelError, "expected a file that LiteRT runs", use)
        assert error.where == str(path)


ENDINGS = {
    "import os; os.abort()": r"ends LiteRT natively \(SIGABRT\)",
    "import time; time.sleep(60)": "has not run once after 0.5 seconds",
    "import sys; sys.exit('no memory')": r"it refuses \(no memory\)",
}


@cases(*ENDINGS)
def test_however_the_child_ends_it_is_one_message(monkeypatch, *, program):
    start = subprocess.run

    def run_instead(command, **given):
        return start([command[0], "-c", program], **given)

    monkeypatch.setattr(subprocess, "run", run_instead)
    monkeypatch.setattr(tflite_trial, "TIMEOUT_SECONDS", 0.5 if "sleep" in program else 60.0)
    refused(ModelError, ENDINGS[program], try_tflite, program.encode())


def test_the_childs_memory_is_bounded():
    """Limits hold for the process that sets them, so a child of the test does."""
    program = (
        "import resource\n"
        "from detection_core.evaluation import tflite_trial as t\n"
        "t._MEMORY_BYTES = 2**30; t._limit(0)\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
        "try: bytearray(2**31)\n"
        "except MemoryError: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(2**30), "0", "refused"]
