"""Train a detector on several worker processes of Ray, on this machine or on a cluster.

    pip install 'ray[default,train]'
    python examples/ray/train.py --config pipeline.config --examples EXAMPLES --output build/trained

Ray starts the workers and sets their TF_CONFIG. Each takes its part of every batch, and the first one writes
the detector. On a cluster, examples and output are on storage that all workers reach. A training that was
stopped resumes when the command is repeated.
"""

import argparse
import json
import os
from pathlib import Path

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.tensorflow import TensorflowTrainer


def train_worker(arguments: dict) -> None:
    """Train in one of the workers."""
    # Ray has set TF_CONFIG now; TensorFlow reads it when the strategy is made.
    from detection_core import load_config, train

    config = load_config(arguments["config"], arguments["overrides"])
    places = {name: arguments[name] for name in ("examples", "output", "warm_start")}
    trained = train(config, **places)
    ray.train.report({"loss": trained.report.loss})


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", required=True, help="a pipeline.config")
    parser.add_argument("--examples", required=True, help="folder of ExampleGen's examples")
    parser.add_argument("--output", required=True, help="folder to write")
    parser.add_argument("--warm-start", help="detector folder with the starting weights")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpus", action="store_true", help="a GPU for each worker")
    parser.add_argument("--steps", type=int, help="replaces train_config.num_steps")
    parser.add_argument("--address", help="of a Ray cluster; default: this machine")
    parser.add_argument(
        "--no-dashboard", action="store_true", help="start faster; Ray Train then warns often"
    )
    options = parser.parse_args()
    output = Path(options.output).resolve()
    arguments = {
        "config": str(Path(options.config).resolve()),
        "examples": str(Path(options.examples).resolve()),
        "output": str(output),
        "warm_start": options.warm_start and str(Path(options.warm_start).resolve()),
        "overrides": {"train_config.num_steps": options.steps} if options.steps else {},
    }
    here = {"num_cpus": max(os.cpu_count() or 1, options.workers)}
    if options.no_dashboard:
        here["include_dashboard"] = False
    ray.init(address=options.address, **({} if options.address else here))
    trainer = TensorflowTrainer(
        train_worker,
        train_loop_config=arguments,
        scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpus),
        run_config=RunConfig(name="detflow", storage_path=str(output / "ray")),
    )
    trainer.fit()
    report = json.loads((output / "model_run" / "train_report.json").read_text())
    print(f"{options.workers} workers, {report['steps']} steps, loss {report['loss']:.6f}: {output}/model")


if __name__ == "__main__":
    main()
