"""What a Kubeflow Pipelines server keeps, and the rules that it holds requests to."""

import datetime
import itertools
import json
import re
import uuid
from typing import Any

import kfp_server_api
import yaml
from google.protobuf import json_format
from kfp.kubernetes.kubernetes_executor_config_pb2 import KubernetesExecutorConfig
from kfp.pipeline_spec import pipeline_spec_pb2

from tests.pipeline.kubeflow.argo_model import Step, Workflow
from tests.pipeline.kubeflow.strict_bodies import BadBodyError, check_body
from tests.pipeline.kubeflow.task_model import tasks_of

ENDED = ("SUCCEEDED", "FAILED", "CANCELED")
_NUMBER = (int, float)
KINDS = {"STRING": str, "BOOLEAN": bool, "LIST": list, "STRUCT": dict}
KINDS |= {"NUMBER_INTEGER": _NUMBER, "NUMBER_DOUBLE": _NUMBER}
Kept = dict[str, dict]


class RefusalError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KfpState:
    """Pipelines, versions, experiments, runs and recurring runs.

    Attributes:
        multi_user: whether namespaces are required.
        forbidden: namespaces in which nothing is allowed.
        failing_step: task that fails in every run; empty: none.
        failing_driver: whether it fails before it begins.
        waiting_step: task whose pod never starts; empty: none.
        failing_root: whether every run fails at its first driver.
        stale_reads: how many reads of an ended run show its tasks as they were before: the server stores the
            run's state first (`server/report_server.go:reportWorkflow`; in 4 of 4 runs on 2.17.0 for 0.3 s).
        tells_steps: whether runs are given with their tasks.
        retried: whether Kubeflow's configuration of Argo retries errors, as it does from 2.17 on.
        keeps_tasks: whether the server keeps tasks of runs instead of telling Argo's nodes, as it does from
            3.0 on: a run has no `task_details` (6585b5143d, `backend/api/v2beta1/run.proto:403`).
        outcomes: task to what shall become of it, as fields of `Step`.
        failed_roots: attempts at whole runs that fail before the one that goes on.
        page: tasks of a page at most, fewer than a server's for tests.
        lost: runs whose workflows were deleted under them.
    """

    def __init__(self) -> None:
        self.multi_user = self.failing_driver = self.failing_root = self.keeps_tasks = False
        self.tells_steps = self.retried = True
        self.forbidden: tuple[str, ...] = ()
        self.failing_step = self.waiting_step = ""
        self.stale_reads, self.failed_roots, self.page = 1, 0, 200
        self.lost: set[str] = set()
        self.pipelines, self.versions, self.experiments, self.runs, self.recurring = ({} for _ in range(5))
        self.outcomes, self.stale, self.progress = ({} for _ in range(3))
        self._clock = itertools.count()

    def create_pipeline(self, body: Any) -> dict:
        check_body("V2beta1Pipeline", body)
        name = body.get("name") or body.get("display_name") or ""
        self._require(name, "pipeline's name cannot be empty")
        _check_length("Pipeline", name, 128)
        namespace = self._namespace(body.get("namespace"))
        _check_unique(self.pipelines, f"The name {name} already exists.", name=name, namespace=namespace)
        made = {"name": name, "display_name": name, **body, "namespace": namespace}
        return self._keep(self.pipelines, "pipeline_id", made)

    def upload_version(self, name: str, pipeline_id: str, file: bytes) -> dict:
        if pipeline_id not in self.pipelines:
            raise RefusalError(400, "Failed to create a pipeline version")
        _check_length("PipelineVersion", name, 127)
        spec = check_package(file)
        told = {"pipeline_id": pipeline_id, "name": name}
        _check_unique(self.versions, "Failed to create a pipeline version", **told)
        made = {**told, "display_name": name, "pipeline_spec": spec}
        return self._keep(self.versions, "pipeline_version_id", made)

    def create_experiment(self, body: Any) -> dict:
        check_body("V2beta1Experiment", body)
        self._require(body.get("display_name"), "experiment's name cannot be empty")
        if len(body["display_name"]) > 128:
            # Nothing checks it but the database (seen on 2.17.0 with 300 characters).
            raise RefusalError(500, "Internal Server Error")
        told = {"display_name": body["display_name"], "namespace": self._namespace(body.get("namespace"))}
        _check_unique(self.experiments, f"Experiment {told['display_name']} already exists", **told)
        return self._keep(self.experiments, "experiment_id", {**body, **told})

    def create_run(self, body: Any) -> dict:
        check_body("V2beta1Run", body)
        self._require(body.get("display_name"), "The run name is empty. Please specify a valid name")
        experiment = self._experiment(body)
        version = self._version(body)
        self.check_parameters(version, body.get("runtime_config", {}).get("parameters", {}))
        check_executors(version)
        made = {**body, "namespace": experiment["namespace"], "state": "PENDING", "state_history": []}
        run = self._keep(self.runs, "run_id", {**made, "finished_at": "1970-01-01T00:00:00Z"})
        self._enter(run, "PENDING")
        self.progress[run["run_id"]] = -1
        return self.show_run(run)

    def read_run(self, run_id: str) -> dict:
        """Give a run; each look moves it on by one step."""
        run = self.find(self.runs, run_id, "Run")
        if run_id not in self.lost:
            if run["state"] == "CANCELING":
                # A workflow that was stopped has failed for Argo, and so for Kubeflow.
                self.end_run(run, "FAILED")
            elif run["state"] not in ENDED:
                self._advance(run)
        return self.show_run(run)

    def terminate(self, run_id: str) -> None:
        run = self.find(self.runs, run_id, "Run")
        if run["state"] not in ("PENDING", "RUNNING"):
            raise RefusalError(400, f"Failed to terminate run {run_id}: Invalid input error: Row not found")
        if run_id in self.lost:
            workflow = self.workflow(run).name
            raise RefusalError(500, f'Failed to terminate run: workflows.argoproj.io "{workflow}" not found')
        self._enter(run, "CANCELING")

    def retry(self, run_id: str) -> None:
        run = self.find(self.runs, run_id, "Run")
        if run["state"] not in ("FAILED", "CANCELED"):
            raise RefusalError(400, "Only failed runs can be retried")
        run["finished_at"] = "1970-01-01T00:00:00Z"
        self.progress[run_id] = max(-1, self.progress[run_id] - 1)  # what failed begins once more
        self._enter(run, "RUNNING")

    def _spec_of(self, run: dict) -> dict:
        return spec_of(self.versions[run["pipeline_version_reference"]["pipeline_version_id"]])

    def _advance(self, run: dict) -> None:
        tasks, done = list(self._spec_of(run)["root"]["dag"]["tasks"]), self.progress[run["run_id"]]
        if run["state"] != "RUNNING":
            self._enter(run, "RUNNING")
        self.stale[run["run_id"]] = [self.workflow(run).details(run["run_id"]), self.stale_reads]
        at = tasks[done] if done >= 0 else None
        if self.failing_root or at == self.failing_step:
            self.end_run(run, "FAILED")
        if self.failing_root or at in (self.failing_step, self.waiting_step):
            return
        self.progress[run["run_id"]] = done + 1
        if done + 1 == len(tasks):
            self.end_run(run, "SUCCEEDED")

    def end_run(self, run: dict, state: str) -> None:
        run["finished_at"] = self._now()
        self._enter(run, state)

    def _enter(self, run: dict, state: str) -> None:
        run["state"] = state
        run["state_history"] = [*run["state_history"], {"update_time": self._now(), "state": state}]

    def show_run(self, run: dict) -> dict:
        shown = {k: v for k, v in run.items() if k != "namespace"}
        if self.keeps_tasks:
            # Without `view=FULL` a run has their number alone (`apiserver/server/run_server.go:545`).
            shown["task_count"] = len(self.tasks(run))
        elif self.tells_steps:
            details = self.workflow(run).details(run["run_id"])
            stale = self.stale.get(run["run_id"], [None, 0])
            if run["state"] in ENDED and stale[1]:
                stale[1] -= 1
                details = stale[0]
            shown["run_details"] = {"task_details": details}
        return shown

    def tasks(self, run: dict) -> list[dict]:
        """Give the tasks that the server keeps of a run."""
        about = run["run_id"], run["display_name"]
        return tasks_of(*about, *self._workflow(run)) if self.tells_steps else []

    def list_tasks(self, run_id: str, query: dict[str, str]) -> dict:
        """List tasks page by page, 200 at most (`apiserver/server/run_server.go:914`, `list/list.go:487`).

        As a server of 6585b5143d answered: without users it knows no tasks of an unknown run, and nothing has
        no key.
        """
        if not self.keeps_tasks:
            raise RefusalError(404, "Not Found")
        size = int(query.get("page_size") or 20)
        self._require(size >= 0, f"The page size should be greater than 0. Got {size}")
        run = self.find(self.runs, run_id, "Run") if self.multi_user else self.runs.get(run_id)
        found = sorted(self.tasks(run) if run else [], key=lambda t: t["task_id"])
        begin = int(query.get("page_token") or 0)
        end = begin + min(size, 200, self.page)
        more = {"next_page_token": str(end)} if end < len(found) else {}
        return {"tasks": found[begin:end], "total_size": len(found), **more} if found else {}

    def workflow(self, run: dict) -> Workflow:
        """Give the nodes of a run's workflow, as they are now."""
        return self._workflow(run)[0]

    def _workflow(self, run: dict) -> tuple[Workflow, list[Step], str]:
        done, state = self.progress.get(run["run_id"], -1), run["state"]
        stopped = any(entry["state"] == "CANCELING" for entry in run["state_history"])
        spec, steps = self._spec_of(run), []
        tasks = spec["root"]["dag"]["tasks"]
        for i, name in enumerate(tasks):
            if i > done and (state != "FAILED" or stopped):
                break
            phase = "Succeeded" if i < done else "Failed" if state == "FAILED" else "Running"
            if i > done:
                phase = "Omitted"
            elif phase == "Failed" and not stopped and self.failing_driver:
                phase = "Unprepared"
            elif phase == "Running" and name == self.waiting_step:
                phase = "Waiting"
            steps.append(self._step(spec, tasks, name, phase, i))
        phase = {"FAILED": "Failed", "SUCCEEDED": "Succeeded"}.get(state, "Running")
        workflow = Workflow(f"{spec['pipelineInfo']['name']}-{run['run_id'][:5]}", retried=self.retried)
        root_fails = self.failing_root and state == "FAILED"
        workflow.run(steps, phase, failed_roots=self.failed_roots, root_fails=root_fails)
        return workflow, steps, phase

    def _step(self, spec: dict, tasks: dict, name: str, phase: str, begin: int) -> Step:
        outcome = dict(self.outcomes.get(name, {}))
        inner = spec["components"].get(tasks[name]["componentRef"]["name"], {})
        below = inner.get("dag", {}).get("tasks", {})
        inside = [self._step(spec, below, n, phase, begin) for n in below]
        if phase != "Succeeded":
            outcome.pop("phase", None)  # it is not so far
        more = {"items": [inside, inside]} if "parameterIterator" in tasks[name] else {"inside": inside}
        return Step(**{"name": name, "phase": phase, "begin": begin, **more, **outcome})

    def create_recurring(self, body: Any) -> dict:
        check_body("V2beta1RecurringRun", body)
        self._require(body.get("display_name"), "Recurring run name is empty")
        experiment = self._experiment(body)
        version = self._version(body)
        concurrency = int(body.get("max_concurrency", 0))
        range_ = f"The max concurrency of the recurring run is out of range. Received {concurrency}."
        self._require(1 <= concurrency <= 10, range_)
        self._check_trigger(body.get("trigger", {}))
        self.check_parameters(version, body.get("runtime_config", {}).get("parameters", {}))
        made = {
            "service_account": "pipeline-runner",
            **body,
            "max_concurrency": str(concurrency),
            "namespace": experiment["namespace"],
            "status": "ENABLED" if body.get("mode") == "ENABLE" else "DISABLED",
        }
        return self._keep(self.recurring, "recurring_run_id", made)

    def fire(self, recurring_id: str) -> str:
        """Start a run of a recurring run, as its controller does, and give its id."""
        recurring = self.recurring[recurring_id]
        expected = ("experiment_id", "pipeline_version_reference", "runtime_config")
        body = {k: recurring[k] for k in expected} | {"display_name": f"{recurring['display_name']} fired"}
        run_id = self.create_run(body)["run_id"]
        self.runs[run_id]["recurring_run_id"] = recurring_id
        return run_id

    def _check_trigger(self, trigger: dict) -> None:
        self._require(len(trigger) == 1, "a recurring run wants one trigger, a cron or a periodic schedule")
        cron = trigger.get("cron_schedule", {}).get("cron")
        if cron is not None and not cron.startswith("@"):
            # As the server's own parser: five fields pass.
            self._require(len(cron.split()) in (5, 6), f"Schedule cron is not a supported format: {cron}")
        if "periodic_schedule" in trigger:
            interval = int(trigger["periodic_schedule"].get("interval_second", 0))
            self._require(interval >= 1, f"Found invalid period schedule interval {interval}")

    def set_mode(self, recurring_id: str, enabled: bool) -> None:
        self.find(self.recurring, recurring_id, "Recurring run")
        self.recurring[recurring_id]["status"] = "ENABLED" if enabled else "DISABLED"

    def delete_recurring(self, recurring_id: str, policy: str) -> dict:
        """Delete a recurring run, and with it the workflows of its runs, unless the request keeps them.

        The cluster's garbage collector does that, as seen on 2.17.0; `propagation_policy` came with
        kubeflow/pipelines#12574.
        """
        self.find(self.recurring, recurring_id, "Recurring run")
        policies = ("", *kfp_server_api.V2beta1DeletePropagationPolicy.allowable_values)
        self._require(policy in policies, f"invalid propagation_policy: {policy}")
        del self.recurring[recurring_id]
        if policy != "ORPHAN":
            made = [run for run in self.runs.values() if run.get("recurring_run_id") == recurring_id]
            self.lost |= {run["run_id"] for run in made if run["state"] not in ENDED}
        return {}

    def find(self, kept: Kept, key: str, what: str) -> dict:
        if key not in kept:
            raise RefusalError(404, f"{what} {key} not found")
        self._allow(kept[key].get("namespace", ""))
        return kept[key]

    def listed(self, kept: Kept, field: str, query: dict[str, str], **equal: str) -> dict:
        if "namespace" in query or (self.multi_user and not equal and field != "pipelines"):
            namespace = self._namespace(query.get("namespace"))
            equal = {**equal, "namespace": namespace}
        if "experiment_id" in query:
            equal = {**equal, "experiment_id": query["experiment_id"]}
        name = _display_name(query.get("filter", ""))
        entries = [e for e in kept.values() if all(e[k] == v for k, v in equal.items())]
        if name is not None:
            entries = [e for e in entries if e["display_name"].lower() == name.lower()]
        order = query.get("sort_by", "")
        self._require(not order or re.fullmatch(r"created_at( asc| desc)?", order), f"bad sort: {order}")
        entries.sort(key=lambda e: e["created_at"], reverse=order.endswith("desc"))
        begin, size = int(query.get("page_token") or 0), int(query.get("page_size") or 10)
        page = entries[begin : begin + size]
        more = {"next_page_token": str(begin + size)} if begin + size < len(entries) else {}
        shown = [self.show_run(e) for e in page] if field == "runs" else page
        return {field: shown, "total_size": len(entries), **more}

    def check_parameters(self, version: dict, values: dict) -> None:
        declared = spec_of(version)["root"].get("inputDefinitions", {}).get("parameters", {})
        extra = [name for name in values if name not in declared]
        self._require(not extra, f"parameter(s) provided are not required by pipeline: {', '.join(extra)}")
        for name, entry in declared.items():
            if name not in values:
                optional = entry.get("isOptional") or "defaultValue" in entry
                self._require(optional, f"parameter {name} is not optional, yet has no value")
                continue
            expected = KINDS[entry["parameterType"]]
            fits = isinstance(values[name], expected) and (expected is bool) == isinstance(values[name], bool)
            self._require(fits, f"input parameter {name} requires type {entry['parameterType']}")

    def _experiment(self, body: dict) -> dict:
        self._require(body.get("experiment_id"), "experiment id is missing")
        return self.find(self.experiments, body["experiment_id"], "Experiment")

    def _version(self, body: dict) -> dict:
        reference = body.get("pipeline_version_reference") or {}
        self._require({"pipeline_id", "pipeline_version_id"} <= set(reference), "pipeline source is missing")
        version = self.find(self.versions, reference["pipeline_version_id"], "PipelineVersion")
        self._require(version["pipeline_id"] == reference["pipeline_id"], "version of another pipeline")
        return version

    def _namespace(self, given: str | None) -> str:
        if not self.multi_user:
            self._require(not given, "Namespace should not be provided in single-user mode.")
            return ""
        self._require(given, "Namespace cannot be empty in multi-user mode")
        self._allow(given or "")
        return given or ""

    def _allow(self, namespace: str) -> None:
        if namespace and namespace in self.forbidden:
            raise RefusalError(403, f"User is not authorized to work in namespace {namespace}")

    def _keep(self, kept: Kept, key: str, made: dict) -> dict:
        made = {**made, key: str(uuid.uuid4()), "created_at": self._now()}
        kept[made[key]] = made
        return made

    def _now(self) -> str:
        start = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
        return (start + datetime.timedelta(seconds=next(self._clock))).isoformat().replace("+00:00", "Z")

    @staticmethod
    def _require(holds: Any, message: str) -> None:
        if not holds:
            raise BadBodyError(message)


def _check_unique(kept: Kept, message: str, **fields: str) -> None:
    if any(fields.items() <= other.items() for other in kept.values()):
        raise RefusalError(409, message)


def _check_length(model: str, name: str, most: int) -> None:
    """Refuse a name as `backend/src/apiserver/validation/length.go` does."""
    if len(name.encode()) > most:
        raise RefusalError(400, f"{model}.Name length cannot exceed {most}")


def spec_of(version: dict) -> dict:
    return version["pipeline_spec"].get("pipeline_spec", version["pipeline_spec"])


def check_package(file: bytes) -> dict:
    """Parse a pipeline file as the server does: strictly, and nothing but schema 2.1.0."""
    documents = [d for d in yaml.safe_load_all(file.decode()) if d]
    spec, *platforms = documents
    try:
        json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
        for platform in platforms:
            json_format.ParseDict(platform, pipeline_spec_pb2.PlatformSpec())
    except json_format.ParseError as e:
        # As seen on 2.17.0, which then takes the file for none of the formats that it knows.
        raise RefusalError(400, "unknown template format: pipeline spec is invalid") from e
    if spec.get("schemaVersion") != "2.1.0":
        found = spec.get("schemaVersion")
        raise RefusalError(400, f"KFP only supports schema version 2.1.0, but the pipeline has {found}")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", spec["pipelineInfo"].get("name", "")):
        raise RefusalError(400, "invalid v2 pipeline spec: name should consist of lower case characters")
    return {"pipeline_spec": spec, "platform_spec": platforms[0]} if platforms else spec


def check_executors(version: dict) -> None:
    """Parse what Kubernetes is to do for each executor, which server 2.17.0 does when a run is made."""
    platforms = version["pipeline_spec"].get("platform_spec", {}).get("platforms", {})
    executors = platforms.get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    for config in executors.values():
        try:
            json_format.ParseDict(config, KubernetesExecutorConfig())
        except json_format.ParseError as e:
            raise RefusalError(400, f"Failed to create a run: kubernetes config: {e}") from e
    workspace = platforms.get("kubernetes", {}).get("pipelineConfig", {}).get("workspace")
    if workspace is not None:
        _check_workspace(workspace)


def _check_workspace(workspace: dict) -> None:
    """Refuse a run's volume as 2.17.0 does, where the server has no default (`argocompiler/argo.go`).

    A server of 6585b5143d made `volumeClaimTemplates` of what passes here.
    """
    claim = workspace.get("kubernetes", {}).get("pvcSpecPatch", {})
    for holds, message in (
        (workspace.get("size"), "workspace size is required but not specified"),
        (claim.get("accessModes"), "workspace PVC spec must specify accessModes"),
        (claim.get("storageClassName", "x"), "storageClassName must be omitted or set to a non-empty value"),
    ):
        if not holds:
            raise RefusalError(400, f"Failed to create a run: {message}")


def _display_name(text: str) -> str | None:
    if not text:
        return None
    [predicate] = json.loads(text)["predicates"]
    if (predicate["operation"], predicate["key"]) not in ((1, "display_name"), ("EQUALS", "display_name")):
        raise BadBodyError(f"Invalid filter: {text}")
    return predicate["stringValue"]
