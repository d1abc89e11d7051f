// Decode a TensorFlow Lite file without post-processing. Copy this file into your app; it needs Kotlin alone.

import kotlin.math.exp
import kotlin.math.max
import kotlin.math.min

/**
 * Content of decoding.json.
 *
 * @property anchors A rows of centre y and x, height and width, as fractions of the image
 * @property scales y_scale, x_scale, h_scale and w_scale of `post_process`
 */
class BoxDecoding(
    val anchors: List<FloatArray>,
    val sigmoid: Boolean,
    val numClasses: Int,
    val scales: FloatArray,
    val maxDetections: Int,
    val maxClassesPerDetection: Int,
    val detectionsPerClass: Int,
    val useRegularNms: Boolean,
    val nmsScoreThreshold: Float,
    val nmsIouThreshold: Float,
)

/**
 * An object.
 *
 * @property box ymin, xmin, ymax, xmax as fractions of the image; not clipped to it
 * @property label line of labels.txt, from 0
 */
class Detection(val box: FloatArray, val score: Float, val label: Int)

private class Candidate(val score: Float, val anchor: Int, val label: Int)

private class Kept(val box: FloatArray, val anchor: Int, val label: Int)

// Pairs of anchor and class, best first, that class-by-class suppression looks at.
private const val CANDIDATES = 5000

/**
 * Return the objects of an image, best first, as TFLite_Detection_PostProcess finds them.
 *
 * @param location output `location` of the file, A * 4 numbers
 * @param score output `score`, A * C numbers
 * @param minScore least score; a higher one is faster
 */
fun decode(
    location: FloatArray,
    score: FloatArray,
    decoding: BoxDecoding,
    minScore: Float = 0f,
): List<Detection> {
    val classes = decoding.numClasses
    val byClass = decoding.useRegularNms
    val least = max(minScore, decoding.nmsScoreThreshold)
    val scoreOf = { anchor: Int, label: Int ->
        val value = score[anchor * classes + label]
        if (decoding.sigmoid) 1f / (1f + exp(-value)) else value
    }
    val pairs = ArrayList<Candidate>()
    for (anchor in decoding.anchors.indices) {
        val best = (0 until classes).maxByOrNull { score[anchor * classes + it] } ?: continue
        for (label in if (byClass) 0 until classes else best..best) {
            val value = scoreOf(anchor, label)
            if (value >= least) pairs.add(Candidate(value, anchor, label))
        }
    }
    pairs.sortByDescending { it.score }
    val kept = suppressed(if (byClass) pairs.take(CANDIDATES) else pairs, location, decoding)
    val found = ArrayList<Detection>()
    for (one in kept) {
        val ranked = (0 until classes).sortedByDescending { score[one.anchor * classes + it] }
        for (label in if (byClass) listOf(one.label) else ranked.take(decoding.maxClassesPerDetection)) {
            found.add(Detection(one.box, scoreOf(one.anchor, label), label))
        }
    }
    found.sortByDescending { it.score }
    return found.take(decoding.maxDetections).filter { it.score >= minScore }
}

private fun suppressed(pairs: List<Candidate>, location: FloatArray, decoding: BoxDecoding): List<Kept> {
    val kept = ArrayList<Kept>()
    for (pair in pairs) {
        if (kept.size == decoding.maxDetections) break
        val box = boxOf(location, pair.anchor, decoding)
        val rivals = if (decoding.useRegularNms) kept.filter { it.label == pair.label } else kept
        if (decoding.useRegularNms && rivals.size == decoding.detectionsPerClass) continue
        if (rivals.all { iou(box, it.box) <= decoding.nmsIouThreshold }) {
            kept.add(Kept(box, pair.anchor, pair.label))
        }
    }
    return kept
}

private fun boxOf(location: FloatArray, anchor: Int, decoding: BoxDecoding): FloatArray {
    val (y, x, height, width) = decoding.anchors[anchor]
    val code = { place: Int -> location[4 * anchor + place] / decoding.scales[place] }
    val centreY = code(0) * height + y
    val centreX = code(1) * width + x
    val halfHeight = exp(code(2)) * height / 2
    val halfWidth = exp(code(3)) * width / 2
    return floatArrayOf(centreY - halfHeight, centreX - halfWidth, centreY + halfHeight, centreX + halfWidth)
}

private fun iou(one: FloatArray, other: FloatArray): Float {
    val height = min(one[2], other[2]) - max(one[0], other[0])
    val width = min(one[3], other[3]) - max(one[1], other[1])
    if (height <= 0 || width <= 0) return 0f
    val area = { box: FloatArray -> (box[2] - box[0]) * (box[3] - box[1]) }
    return height * width / (area(one) + area(other) - height * width)
}
