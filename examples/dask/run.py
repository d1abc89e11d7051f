"""Run a workflow with ExampleGen and the Evaluators on worker processes of Dask.

    pip install 'apache-beam[dask]'
    python examples/dask/run.py examples/digits/settings.yaml --workers 2

Without `--address` it starts a cluster on this machine, each worker a process. `--address tcp://HOST:8786` is
a scheduler that runs already; its workers need detflow, and the storage of data and workspace. The example
only sets `beam.args` and `evaluate.distributed`, which a settings file may have, too.
"""

import argparse
import contextlib
import json
import sys

from dask.distributed import LocalCluster

from pipeline.cli.parser import main as detflow

# By its whole name, because as of Beam 2.77 the short one is not known.
RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"


TASKS = 4
"""Tasks of a worker: more divide the work more evenly, but each loads the detector."""


def beam_args(address: str, workers: int) -> list[str]:
    """Return Beam's options for the cluster at an address."""
    tasks = f"--dask_npartitions={TASKS * workers}"
    return [f"--runner={RUNNER}", f"--dask_client_address={address}", tasks]


def main() -> int:
    """Run the workflow and return the exit code of `detflow run`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("settings", help="a settings file")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--address", help="of a scheduler that runs already")
    options, others = parser.parse_known_args()
    with contextlib.ExitStack() as stack:
        address = options.address
        if address is None:
            # A worker is a process with one thread, because TensorFlow starts threads itself.
            cluster = LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None)
            address = stack.enter_context(cluster).scheduler_address
        arguments = json.dumps(beam_args(address, options.workers))
        chosen = ["--set", f"beam.args={arguments}", "--set", "evaluate.distributed=true"]
        return detflow(["run", options.settings, *chosen, *others])


if __name__ == "__main__":
    sys.exit(main())
