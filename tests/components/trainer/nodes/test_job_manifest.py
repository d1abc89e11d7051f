import copy

from component_specs.trainer import NODES, TrainingNodes
from components.trainer.nodes.job_manifest import KINDS, RUNTIME, WORKERS
from tests.k8s.manifests import addon, problems
from tests.support.cases import cases

NODE_FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}
KEY = {"secretKeyRef": {"name": "s3", "key": "secret"}}
POD = {
    "metadata": {
        "name": "digits-x7-trainer-1",
        "ownerReferences": [
            {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Workflow",
                "name": "digits-x7",
                "uid": "u",
                "controller": True,
            }
        ],
    },
    "spec": {
        "serviceAccountName": "detflow-runner",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "containers": [
            {"name": "wait", "image": "argoexec"},
            {
                "name": "main",
                "image": "detflow:3",
                "env": [
                    {"name": "KFP_POD_NAME", "valueFrom": NODE_FIELD},
                    {"name": "KFP_RETRY_INDEX", "value": "0"},
                    {"name": "ARGO_TEMPLATE", "value": "{}"},
                    {"name": NODES, "value": "{}"},
                    {"name": "WHERE", "valueFrom": NODE_FIELD},
                    {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": KEY},
                    {"name": "AWS_REGION", "value": "eu-1"},
                ],
                "volumeMounts": [
                    {"name": "detflow-work", "mountPath": "/work"},
                    {"name": "minio-scratch", "mountPath": "/minio"},
                    {"name": "shared-memory", "mountPath": "/dev/shm"},
                    {
                        "name": "kube-api-access-1",
                        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    },
                ],
            },
        ],
        "volumes": [
            {"name": "detflow-work", "persistentVolumeClaim": {"claimName": "detflow-work"}},
            {"name": "minio-scratch", "emptyDir": {}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "kube-api-access-1", "projected": {"sources": []}},
        ],
    },
}
OPTIONS = TrainingNodes(
    nodes=3,
    labels={"kueue.x-k8s.io/queue-name": "gpus"},
    resources={"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "1"}},
)


def made(kind):
    pod = copy.deepcopy(POD)
    manifest = KINDS[kind].manifest("detflow-1", OPTIONS, pod, ["--work_dir=/work"])
    assert pod == POD, "the step's pod is read only"
    return manifest


@cases(*KINDS)
def test_the_api_takes_it_and_it_belongs_to_the_run_and_its_queue(*, kind):
    manifest = made(kind)
    assert problems(manifest) == []
    assert manifest["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpus"}
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Workflow", "u", False)


def test_pods_of_a_train_job_have_what_the_step_s_pod_has_beside_its_own_life():
    spec = made("TrainJob")["spec"]
    assert (
        spec["runtimeRef"]["name"]
        == RUNTIME
        == addon("distributed-training/training-runtime.yaml")[0]["metadata"]["name"]
    )
    trainer = spec["trainer"]
    assert (trainer["image"], trainer["numNodes"], trainer["args"]) == ("detflow:3", 3, ["--work_dir=/work"])
    assert trainer["resourcesPerNode"] == OPTIONS.resources
    assert trainer["env"] == [
        {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": KEY},
        {"name": "AWS_REGION", "value": "eu-1"},
        {"name": WORKERS, "value": "3"},
    ]
    (patch,) = spec["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    assert [v["name"] for v in pod["volumes"]] == ["detflow-work", "shared-memory"]
    (container,) = pod["containers"]
    assert [m["mountPath"] for m in container["volumeMounts"]] == ["/work", "/dev/shm"]
    assert container["name"] == KINDS["TrainJob"].container == "node"
    for key in ("serviceAccountName", "nodeSelector", "tolerations", "imagePullSecrets"):
        assert pod[key] == POD["spec"][key], key
    assert "affinity" not in pod


def test_pods_of_a_tf_job_have_the_same_and_a_folder_for_temporary_files():
    spec = made("TFJob")["spec"]
    worker = spec["tfReplicaSpecs"]["Worker"]
    assert worker["replicas"] == 3
    pod = worker["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert [v["name"] for v in pod["volumes"]] == ["detflow-work", "shared-memory", "scratch"]
    (container,) = pod["containers"]
    assert container["name"] == KINDS["TFJob"].container
    assert [m["mountPath"] for m in container["volumeMounts"]] == ["/work", "/dev/shm", "/tmp"]
    # The operator sets TF_CONFIG.
    assert [e["name"] for e in container["env"]] == ["AWS_SECRET_ACCESS_KEY", "AWS_REGION"]
    assert container["resources"] == OPTIONS.resources
