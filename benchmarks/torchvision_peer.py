"""torchvision's half of `benchmarks.families`, run in a Python that has torch and torchvision.

    PYTHONPATH=. python benchmarks/torchvision_peer.py SETTINGS

`SETTINGS` is JSON, as `families.settings` makes it. Nothing of detflow is imported.

`c4` networks are torchvision's `FasterRCNN` and `MaskRCNN` with the layers of the Object Detection API's
ResNet-50: regions are cropped from the map of stride 16 and pass the last stage. `fpn` ones are torchvision's
`fasterrcnn_resnet50_fpn` and `maskrcnn_resnet50_fpn` as they are. Batch norms learn in both, as there.
"""

from __future__ import annotations

import copy
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.turns import serve

CHANNELS = {"features": 1024, "regions": 2048, "proposals": 512, "masks": 256}
SCALES, RATIOS = (64, 128, 256, 512), (0.5, 1.0, 2.0)


def _resnet() -> Any:
    """Make a ResNet-50 whose stages halve their map in the first convolution, as version 1 does."""
    models = importlib.import_module("torchvision.models")
    network = models.resnet50(weights=None)
    for stage in (network.layer2, network.layer3, network.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    return network


def _c4(work: dict[str, Any]) -> Any:
    """Make a detector of boxes, or of masks too, whose regions are cropped from the map of stride 16."""
    torch, ops = importlib.import_module("torch"), importlib.import_module("torchvision.ops")
    detection = importlib.import_module("torchvision.models.detection")
    nn, rpn = torch.nn, importlib.import_module("torchvision.models.detection.rpn")
    resnet = _resnet()
    backbone = nn.Sequential(
        *(resnet.conv1, resnet.bn1, resnet.relu, resnet.maxpool, resnet.layer1, resnet.layer2, resnet.layer3)
    )
    backbone.out_channels = CHANNELS["features"]
    per_cell, hidden = len(SCALES) * len(RATIOS), CHANNELS["proposals"]
    head = rpn.RPNHead(hidden, per_cell)
    head.conv = nn.Sequential(nn.Conv2d(CHANNELS["features"], hidden, 3, padding=1), nn.ReLU6(inplace=True))
    pool = ops.MultiScaleRoIAlign(["0"], output_size=7, sampling_ratio=2)
    regions = CHANNELS["regions"]
    parts: dict[str, Any] = {
        "rpn_anchor_generator": rpn.AnchorGenerator((SCALES,), (RATIOS,)),
        "rpn_head": head,
        "box_roi_pool": pool,
        "box_head": nn.Sequential(resnet.layer4, nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        "box_predictor": detection.faster_rcnn.FastRCNNPredictor(regions, work["classes"] + 1),
        "box_detections_per_img": work["detections"],
        "box_batch_size_per_image": work["sampled"],
        "rpn_post_nms_top_n_train": work["proposals"],
        "rpn_post_nms_top_n_test": work["proposals"],
    }
    make = detection.FasterRCNN
    if work["masks"]:
        make, side = detection.MaskRCNN, work["masks"]
        between = CHANNELS["masks"]
        upsample = nn.Upsample((side, side), mode="bilinear", align_corners=True)
        convolution = nn.Conv2d(regions, between, 3, padding=1)
        parts["mask_roi_pool"] = copy.deepcopy(pool)
        parts["mask_head"] = nn.Sequential(resnet.layer4, upsample, convolution, nn.ReLU(inplace=True))
        parts["mask_predictor"] = nn.Conv2d(between, work["classes"] + 1, 3, padding=1)
    return make(backbone, **parts, **_input(work))


def _fpn(work: dict[str, Any]) -> Any:
    """Make torchvision's own detector."""
    torchvision = importlib.import_module("torchvision")
    detection = torchvision.models.detection
    make = detection.maskrcnn_resnet50_fpn if work["masks"] else detection.fasterrcnn_resnet50_fpn
    # Without weights its batch norms learn.
    return make(
        weights=None,
        weights_backbone=None,
        num_classes=work["classes"] + 1,
        box_detections_per_img=work["detections"],
        **_input(work),
    )


def _input(work: dict[str, Any]) -> dict[str, Any]:
    """Images are resized beforehand; every candidate above the threshold is suppressed."""
    side = work["side"]
    threshold = work["score_threshold"]
    return {"min_size": side, "max_size": side, "box_score_thresh": threshold, "_skip_resize": True}


def detector(work: dict[str, Any]) -> Any:
    """Make the detector; its masks are not pasted into images, as ours are not."""
    model = {"c4": _c4, "fpn": _fpn}[work["network"]](work)
    model.transform.postprocess = lambda result, *sizes: result
    return model


def _batch(work: dict[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Read images [3, H, W], 0..1, and their objects in pixels, with classes from 1."""
    numpy, torch = importlib.import_module("numpy"), importlib.import_module("torch")
    with numpy.load(work["batch"]) as stored:
        pixels = numpy.ascontiguousarray(stored["pixels"].transpose(0, 3, 1, 2)) / 255.0
        boxes, classes = stored["boxes"] * work["side"], stored["classes"] + 1
    boxes = torch.from_numpy(boxes[..., [1, 0, 3, 2]]).float()
    targets = [
        {"boxes": each, "labels": torch.from_numpy(label).long()}
        for each, label in zip(boxes, classes, strict=True)
    ]
    if work["masks"]:
        side = work["side"]
        for target in targets:
            target["masks"] = torch.ones((len(target["boxes"]), side, side), dtype=torch.uint8)
    return [torch.from_numpy(image).float() for image in pixels], targets


def training_step(work: dict[str, Any]) -> Callable[[], object]:
    """Return a step: forward, losses, gradients, update."""
    torch = importlib.import_module("torch")
    model, (images, targets) = detector(work).train(), _batch(work)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def run() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = sum(model(images, targets).values())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return run


def prediction(work: dict[str, Any]) -> Callable[[], object]:
    """Return a prediction: network and suppression."""
    torch = importlib.import_module("torch")
    model, (images, _) = detector(work).eval(), _batch(work)

    def run() -> object:
        with torch.inference_mode():
            return model(images)

    return run


PARTS = {"step": training_step, "prediction": prediction}


def main() -> None:
    """Run the part that the settings name, whenever it is asked for."""
    work = json.loads(sys.argv[1])

    def make() -> Callable[[], object]:
        torch = importlib.import_module("torch")
        torch.set_num_threads(work["threads"])
        torch.manual_seed(0)
        return PARTS[work["part"]](work)

    serve(make, needs="torch and torchvision")


if __name__ == "__main__":
    main()
