// Decode a TensorFlow Lite file without post-processing. Copy this file into your app; it needs no package.
//
//   const decoding = await (await fetch("decoding.json")).json();
//   const found = decode(location, score, decoding, 0.5);

// Pairs of anchor and class, best first, that class-by-class suppression looks at.
const CANDIDATES = 5000;

/**
 * Return the objects of an image, best first, as TFLite_Detection_PostProcess finds them.
 *
 * @param {ArrayLike<number>} location output `location` of the file, A * 4 numbers
 * @param {ArrayLike<number>} score output `score`, A * C numbers
 * @param {object} decoding content of decoding.json
 * @param {number} minScore least score; a higher one is faster
 * @returns {{box: number[], score: number, label: number}[]} boxes as ymin, xmin, ymax, xmax, fractions of the
 *   image and not clipped to it; labels are lines of labels.txt, from 0
 */
export function decode(location, score, decoding, minScore = 0) {
  const options = decoding.post_process;
  const classes = options.num_classes;
  const byClass = options.use_regular_nms;
  const least = Math.max(minScore, options.nms_score_threshold);
  const scoreOf = (anchor, label) => {
    const value = score[anchor * classes + label];
    return decoding.sigmoid ? 1 / (1 + Math.exp(-value)) : value;
  };
  // Labels of an anchor, best first.
  const ranked = (anchor) =>
    [...Array(classes).keys()].sort((a, b) => score[anchor * classes + b] - score[anchor * classes + a]);

  const pairs = [];
  for (let anchor = 0; anchor < decoding.anchors.length; anchor++) {
    let best = 0;
    for (let label = 0; label < classes; label++) {
      if (byClass) addPair(anchor, label);
      else if (score[anchor * classes + label] > score[anchor * classes + best]) best = label;
    }
    if (!byClass) addPair(anchor, best);
  }
  function addPair(anchor, label) {
    const value = scoreOf(anchor, label);
    if (value >= least) pairs.push({ score: value, anchor, label });
  }
  pairs.sort((a, b) => b.score - a.score);

  const kept = [];
  for (const { anchor, label } of byClass ? pairs.slice(0, CANDIDATES) : pairs) {
    if (kept.length === options.max_detections) break;
    const box = boxOf(location, anchor, decoding.anchors[anchor], options);
    const rivals = byClass ? kept.filter((one) => one.label === label) : kept;
    if (byClass && rivals.length === options.detections_per_class) continue;
    if (rivals.every((one) => iou(box, one.box) <= options.nms_iou_threshold)) kept.push({ box, anchor, label });
  }

  const found = [];
  for (const { box, anchor, label } of kept) {
    const labels = byClass ? [label] : ranked(anchor).slice(0, options.max_classes_per_detection);
    for (const each of labels) found.push({ box, score: scoreOf(anchor, each), label: each });
  }
  found.sort((a, b) => b.score - a.score);
  return found.slice(0, options.max_detections).filter((one) => one.score >= minScore);
}

function boxOf(location, anchor, [y, x, height, width], options) {
  const start = 4 * anchor;
  const centreY = (location[start] / options.y_scale) * height + y;
  const centreX = (location[start + 1] / options.x_scale) * width + x;
  const halfHeight = (Math.exp(location[start + 2] / options.h_scale) * height) / 2;
  const halfWidth = (Math.exp(location[start + 3] / options.w_scale) * width) / 2;
  return [centreY - halfHeight, centreX - halfWidth, centreY + halfHeight, centreX + halfWidth];
}

function iou(one, other) {
  const height = Math.min(one[2], other[2]) - Math.max(one[0], other[0]);
  const width = Math.min(one[3], other[3]) - Math.max(one[1], other[1]);
  if (height <= 0 || width <= 0) return 0;
  const area = (box) => (box[2] - box[0]) * (box[3] - box[1]);
  return (height * width) / (area(one) + area(other) - height * width);
}
