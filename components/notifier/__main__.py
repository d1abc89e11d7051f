"""The entry point of the tasks that notify on Kubeflow Pipelines, see `pipeline.kubeflow.kfp_backend`."""

import argparse
import dataclasses
import json
import logging
from collections.abc import Mapping
from typing import Any

from components.notifier.notification import Notification, notify
from components.runtime.container import log_to_stderr
from components.runtime.kfp.call import EXECUTOR_INPUT, local_path

# States of a task that are no failure, in Kubeflow's metadata store and in its database.
_GOOD_STATES = ("COMPLETE", "CACHED", "SUCCEEDED", "SKIPPED")


def _notify(inputs: Mapping[str, Any], root: str) -> None:
    given = inputs["parameterValues"]
    about, run_id, status = json.loads(given["about"]), given["run_id"], given.get("status")
    report = about["link"] and about["link"] + run_id
    told = Notification(pipeline=about["pipeline"], run_id=run_id, report=report)
    made = {name: entry["artifacts"][0] for name, entry in inputs.get("artifacts", {}).items()}
    if status and status["state"] not in _GOOD_STATES:
        reasons = filter(None, [(status.get("error") or {}).get("message")])
        told = dataclasses.replace(told, verdict="failed", reasons=tuple(reasons))
    # A run's artifacts lie in a folder of its id; a result from the cache is no news.
    elif made and run_id in made["pushed_model"]["uri"]:
        told = told.with_outcome(*(local_path(made[name], root) for name in ("pushed_model", "evaluation")))
    notify(told, **about["notify"])


if __name__ == "__main__":
    log_to_stderr()
    parser = argparse.ArgumentParser(description="Notify of a run on Kubeflow Pipelines.")
    parser.add_argument(EXECUTOR_INPUT, required=True, help="KFP's executor input, JSON")
    parser.add_argument("--root", default="/", help="folder below which object stores appear, for tests")
    arguments = parser.parse_args()
    try:
        _notify(json.loads(arguments.executor_input)["inputs"], arguments.root)
    except Exception:
        # Never fail the run because nobody was notified.
        logging.getLogger(__name__).exception("notify | nobody was notified")
