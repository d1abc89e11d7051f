// Decode a TensorFlow Lite file without post-processing. Copy this file into your app; it needs Foundation alone.
//
//   let reader = JSONDecoder()
//   reader.keyDecodingStrategy = .convertFromSnakeCase
//   let decoding = try reader.decode(BoxDecoding.self, from: Data(contentsOf: url))

import Foundation

/// Content of decoding.json. Anchors are rows of centre y and x, height and width, as fractions of the image.
struct BoxDecoding: Decodable {
    struct PostProcess: Decodable {
        let maxDetections: Int
        let maxClassesPerDetection: Int
        let detectionsPerClass: Int
        let useRegularNms: Bool
        let nmsScoreThreshold: Float
        let nmsIouThreshold: Float
        let numClasses: Int
        let yScale: Float
        let xScale: Float
        let hScale: Float
        let wScale: Float
    }

    let anchors: [[Float]]
    let sigmoid: Bool
    let postProcess: PostProcess
}

/// An object. The box is ymin, xmin, ymax, xmax as fractions of the image, not clipped to it. The label is a line
/// of labels.txt, from 0.
struct Detection {
    let box: [Float]
    let score: Float
    let label: Int
}

// Pairs of anchor and class, best first, that class-by-class suppression looks at.
private let candidates = 5000

/// Return the objects of an image, best first, as TFLite_Detection_PostProcess finds them.
///
/// - Parameters:
///   - location: output `location` of the file, A * 4 numbers
///   - score: output `score`, A * C numbers
///   - minScore: least score; a higher one is faster
func decode(location: [Float], score: [Float], decoding: BoxDecoding, minScore: Float = 0) -> [Detection] {
    let options = decoding.postProcess
    let classes = options.numClasses
    let least = max(minScore, options.nmsScoreThreshold)
    func scoreOf(_ anchor: Int, _ label: Int) -> Float {
        let value = score[anchor * classes + label]
        return decoding.sigmoid ? 1 / (1 + exp(-value)) : value
    }
    // Labels of an anchor, best first; of equal scores the lower label.
    func ranked(_ anchor: Int) -> [Int] {
        return (0..<classes).sorted { one, other in
            let (first, second) = (score[anchor * classes + one], score[anchor * classes + other])
            return first != second ? first > second : one < other
        }
    }
    var pairs: [(score: Float, anchor: Int, label: Int)] = []
    for anchor in decoding.anchors.indices {
        for label in options.useRegularNms ? Array(0..<classes) : Array(ranked(anchor).prefix(1)) {
            let value = scoreOf(anchor, label)
            if value >= least { pairs.append((value, anchor, label)) }
        }
    }
    pairs.sort { $0.score != $1.score ? $0.score > $1.score : ($0.anchor, $0.label) < ($1.anchor, $1.label) }
    if options.useRegularNms { pairs = Array(pairs.prefix(candidates)) }

    var kept: [(box: [Float], anchor: Int, label: Int)] = []
    for pair in pairs {
        if kept.count == options.maxDetections { break }
        let box = boxOf(location, pair.anchor, decoding)
        let rivals = options.useRegularNms ? kept.filter { $0.label == pair.label } : kept
        if options.useRegularNms && rivals.count == options.detectionsPerClass { continue }
        if rivals.allSatisfy({ iou(box, $0.box) <= options.nmsIouThreshold }) {
            kept.append((box, pair.anchor, pair.label))
        }
    }

    var found: [(order: Int, detection: Detection)] = []
    for one in kept {
        let best = ranked(one.anchor).prefix(options.maxClassesPerDetection)
        for label in options.useRegularNms ? [one.label] : Array(best) {
            found.append((found.count, Detection(box: one.box, score: scoreOf(one.anchor, label), label: label)))
        }
    }
    found.sort { one, other in
        let (first, second) = (one.detection.score, other.detection.score)
        return first != second ? first > second : one.order < other.order
    }
    return found.prefix(options.maxDetections).map { $0.detection }.filter { $0.score >= minScore }
}

private func boxOf(_ location: [Float], _ anchor: Int, _ decoding: BoxDecoding) -> [Float] {
    let options = decoding.postProcess
    let (side, start) = (decoding.anchors[anchor], 4 * anchor)
    let centreY = location[start] / options.yScale * side[2] + side[0]
    let centreX = location[start + 1] / options.xScale * side[3] + side[1]
    let halfHeight = exp(location[start + 2] / options.hScale) * side[2] / 2
    let halfWidth = exp(location[start + 3] / options.wScale) * side[3] / 2
    return [centreY - halfHeight, centreX - halfWidth, centreY + halfHeight, centreX + halfWidth]
}

private func iou(_ one: [Float], _ other: [Float]) -> Float {
    let height = min(one[2], other[2]) - max(one[0], other[0])
    let width = min(one[3], other[3]) - max(one[1], other[1])
    if height <= 0 || width <= 0 { return 0 }
    func area(_ box: [Float]) -> Float { return (box[2] - box[0]) * (box[3] - box[1]) }
    return height * width / (area(one) + area(other) - height * width)
}
