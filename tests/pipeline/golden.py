"""The compiled example of a cluster; `python -m tests.pipeline.golden` writes it again."""

from pathlib import Path

from pipeline.kubeflow.kfp_backend import render_pipeline
from pipeline.settings.settings_file import load_settings

SETTINGS = Path(__file__).parents[2] / "examples" / "kubeflow" / "settings.yaml"
GOLDEN = Path(__file__).parent / "data" / "digits_pipeline.yaml"


def render() -> str:
    """Return the package of `examples/kubeflow`; its paths are the pods', none is this machine's."""
    return render_pipeline(load_settings(str(SETTINGS), check_files=False))


if __name__ == "__main__":
    GOLDEN.write_text(render(), encoding="utf-8")
