"""What is asked of a quantization is known without the library that does it."""

import subprocess
import sys

_SLOW = ("tensorflow_model_optimization", "keras", "sklearn", "matplotlib", "scipy.stats")


def test_what_describes_and_plans_a_training_imports_no_slow_library():
    code = (
        "import sys; from pipeline.console import quick_tensorflow\n"
        "with quick_tensorflow(): import detection_core.tasks.describe, detection_core.builders.train_plan\n"
        f"print([name for name in {_SLOW!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[-2] == "[]"
