#include "compiler/verifier/step_geometry.h"

#include <algorithm>

namespace ucp {

bool Disjoint(const GeometryPart& a, const GeometryPart& b) {
  return a.progression != b.progression || a.last_block <= b.first_block || b.last_block <= a.first_block ||
         a.last_offset <= b.first_offset || b.last_offset <= a.first_offset;
}

std::optional<GeometryPart> FindPart(const Progression& clipped, const std::vector<Progression>& whole) {
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const Progression& p = whole[i];
    std::int64_t distance = clipped.logical_begin - p.logical_begin;
    if (distance < 0 || clipped.length <= 0 || clipped.count <= 0) continue;
    std::int64_t block = p.count == 1 ? 0 : distance / p.logical_stride;
    std::int64_t offset = distance - block * p.logical_stride;
    bool inside = block + clipped.count <= p.count && offset + clipped.length <= p.length;
    bool same_pace =
        clipped.count == 1 || (clipped.source_stride == p.source_stride && clipped.target_stride == p.target_stride &&
                               clipped.logical_stride == p.logical_stride);
    bool same_places = clipped.source_begin == p.source_begin + block * p.source_stride + offset &&
                       clipped.target_begin == p.target_begin + block * p.target_stride + offset;
    if (inside && same_pace && same_places) {
      return GeometryPart{i, block, block + clipped.count, offset, offset + clipped.length};
    }
  }
  return std::nullopt;
}

std::vector<std::int64_t> Strides(const ProductSet& set, const std::vector<std::int64_t>& given) {
  if (!given.empty()) return given;
  std::vector<std::int64_t> strides(set.dims.size());
  std::int64_t stride = 1;
  for (std::size_t d = set.dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= set.dims[d].local_length();
  }
  return strides;
}

std::int64_t RealElementsBefore(const ProductSet& set, const WrittenPiece& piece, std::int64_t element) {
  std::int64_t left = element - piece.begin;
  if (left <= 0) return 0;
  std::int64_t inner_real = set.real_elements();
  if (inner_real == 0) return 0;
  // Slowest first: a place of one dimension is before all later ones of it, whatever their places in faster ones.
  const std::vector<std::int64_t> strides = Strides(set, piece.strides);
  std::vector<std::size_t> slowest_first;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (set.dims[d].local_length() > 1) slowest_first.push_back(d);
  }
  std::stable_sort(slowest_first.begin(), slowest_first.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  std::int64_t before = 0;
  for (std::size_t d : slowest_first) {
    const Selection& dim = set.dims[d];
    inner_real /= dim.real_length();
    const std::int64_t local = left / strides[d];
    left %= strides[d];
    std::int64_t real_before = 0;
    bool is_real = false;
    for (const Run& run : dim.runs()) {
      real_before += std::clamp<std::int64_t>(local - run.local_begin, 0, run.length);
      is_real = is_real || (run.local_begin <= local && local < run.local_begin + run.length);
    }
    before += real_before * inner_real;
    if (!is_real) return before;
  }
  return before + (left > 0 ? 1 : 0);
}

bool LoopsAreTheBox(const Step& step, const std::vector<std::int64_t>& source_strides,
                    const std::vector<std::int64_t>& target_strides) {
  std::vector<StepLoop> of_step;
  of_step.push_back({step.run_elements, 1, 1});
  of_step.insert(of_step.end(), step.loops.rbegin(), step.loops.rend());
  std::vector<StepLoop> of_box;
  for (std::size_t d = step.box.size(); d-- > 0;) {
    const Progression& p = *step.box[d];
    of_box.push_back({p.length, source_strides[d], target_strides[d]});
    of_box.push_back({p.count, p.source_stride * source_strides[d], p.target_stride * target_strides[d]});
  }
  std::erase_if(of_step, [](const StepLoop& loop) { return loop.count == 1; });
  std::erase_if(of_box, [](const StepLoop& loop) { return loop.count == 1; });
  std::size_t b = 0;
  for (const StepLoop& loop : of_step) {
    std::int64_t covered = 1;
    while (covered < loop.count) {
      bool continues = b < of_box.size() && of_box[b].source_stride == covered * loop.source_stride &&
                       of_box[b].target_stride == covered * loop.target_stride;
      if (!continues) return false;
      covered *= of_box[b++].count;
    }
    if (covered != loop.count) return false;
  }
  return b == of_box.size();
}

std::pair<std::int64_t, std::int64_t> Corners(const Step& step, const std::vector<std::int64_t>& strides,
                                              StepSide side) {
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < step.box.size(); ++d) {
    const Progression& p = *step.box[d];
    std::int64_t begin = side == StepSide::kSource ? p.source_begin : p.target_begin;
    std::int64_t stride = side == StepSide::kSource ? p.source_stride : p.target_stride;
    first += begin * strides[d];
    last += (begin + (p.count - 1) * stride + p.length - 1) * strides[d];
  }
  return {first, last};
}

}  // namespace ucp
