"""Parts of detectors: layers, backbones, necks, heads, anchors, targets and losses."""
