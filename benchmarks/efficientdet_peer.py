"""effdet's half of `benchmarks.efficientdet`, run in a Python that has torch, timm and effdet.

    python benchmarks/efficientdet_peer.py THREADS

It answers each line of JSON with one: `{"missing": ...}` where something cannot be had, `{}` when it is done.
Nothing of detflow is imported, so that it runs where detflow is not installed.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any


def training_step(command: dict[str, Any]) -> Callable[[], object]:
    """A step on the batch of a file: forward, losses, gradients, update."""
    torch = importlib.import_module("torch")
    bench = _detector(command, bench_task="train", bench_labeler=True).train()
    pixels, target = _batch(command)
    optimizer = torch.optim.SGD(bench.parameters(), lr=1e-3, momentum=0.9)

    def run() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = bench(pixels, target)["loss"]
        loss.backward()
        optimizer.step()
        return float(loss)

    return run


def prediction(command: dict[str, Any]) -> Callable[[], object]:
    """One image: network and suppression."""
    torch = importlib.import_module("torch")
    bench = _detector(command, bench_task="predict").eval()
    pixels, _ = _batch(command)

    def run() -> object:
        with torch.inference_mode():
            return bench(pixels).numpy()

    return run


def _detector(command: dict[str, Any], **task: Any) -> Any:
    """Make effdet's detector, with random weights, for a task."""
    return importlib.import_module("effdet").create_model(
        command["model"],
        num_classes=command["classes"],
        pretrained_backbone=False,
        image_size=(command["side"],) * 2,
        **task,
    )


def _batch(command: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Images [B, 3, H, W], normalised, and their objects, pixels and classes from 1, -1 in the padding."""
    import numpy as np

    torch = importlib.import_module("torch")
    with np.load(command["batch"]) as stored:
        pixels = (stored["pixels"] - 127.0) / 128.0
        boxes, classes = stored["boxes"] * command["side"], stored["classes"] + 1.0
    target = {"bbox": torch.from_numpy(boxes), "cls": torch.from_numpy(classes)}
    images = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
    return images, {name: value.float() for name, value in target.items()}


PARTS = {"step": training_step, "prediction": prediction}


def missing() -> str:
    """Return what is not there to run, "" where all is."""
    try:
        importlib.import_module("effdet")
        torch = importlib.import_module("torch")
    except ImportError as error:
        return f"{error}; install torch, torchvision, timm, omegaconf, pycocotools and effdet 0.4.1"
    torch.set_num_threads(int(sys.argv[1]))
    return ""


def answer(command: dict[str, Any], running: dict[str, Callable[[], object]]) -> dict[str, str]:
    """Do what a line says."""
    if "run" in command:
        running[command["run"]]()
        return {}
    try:
        running[command["set_up"]] = PARTS[command["part"]](command)
        running[command["set_up"]]()
    except Exception as error:
        return {"missing": f"{type(error).__name__}: {str(error)[:300]}"}
    return {}


def main() -> None:
    """Answer until the other side has no more to say."""
    found = missing()
    print(json.dumps({"missing": found} if found else {}), flush=True)
    running: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), running)), flush=True)


if __name__ == "__main__":
    main()
