// The walk over all steps. For each target range and each read, the boxes that the enumerator shows are checked to be
// parts of the geometry (which V3 has proved), to lie within both flat ranges, to be disjoint, and to be written down
// rightly as loops. Since the kCopy reads of a tensor are a partition of it (V4), boxes that are disjoint and together
// as many elements as the range has real places fill it exactly once.
#include "compiler/plan/verify_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/plan/steps.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::int64_t kLimit = std::int64_t{1} << 60;

template <typename... Args>
llvm::Error Unsound(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(ErrorCode::kBadData, "the plan is not sound: {}", fmt::format(format, std::forward<Args>(args)...));
}

// Whether local places [local, local + length) of `dim` hold the logical positions [logical, logical + length).
bool Holds(const Selection& dim, std::int64_t local, std::int64_t logical, std::int64_t length) {
  auto run = std::partition_point(dim.runs().begin(), dim.runs().end(),
                                  [&](const Run& r) { return r.local_begin + r.length <= local; });
  if (run == dim.runs().end() || run->local_begin > local) return false;
  return logical - run->logical_begin == local - run->local_begin && local + length <= run->local_begin + run->length;
}

std::int64_t CommonPositions(const Selection& a, const Selection& b) {
  std::int64_t common = 0;
  auto i = a.runs().begin();
  auto j = b.runs().begin();
  while (i != a.runs().end() && j != b.runs().end()) {
    std::int64_t i_end = i->logical_begin + i->length;
    std::int64_t j_end = j->logical_begin + j->length;
    common += std::max<std::int64_t>(0, std::min(i_end, j_end) - std::max(i->logical_begin, j->logical_begin));
    if (i_end < j_end) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

// V3 for one dimension: every block pairs equal positions, blocks follow each other, and none is missing.
bool DimensionIsRight(const std::vector<Progression>& dim, const Selection& source, const Selection& target) {
  // Each block is from another pair of runs; so a hostile count does not keep the loop below busy.
  auto most_blocks = static_cast<std::int64_t>(source.runs().size() + target.runs().size());
  std::int64_t behind = 0;
  std::int64_t positions = 0;
  for (const Progression& p : dim) {
    bool sane = p.length > 0 && p.count > 0 && p.count <= most_blocks;
    for (std::int64_t value : {p.source_begin, p.target_begin, p.logical_begin, p.length, p.source_stride,
                               p.target_stride, p.logical_stride}) {
      sane = sane && value >= 0 && value < kLimit;
    }
    // Strides that no block follows are multiplied by others all the same.
    bool no_idle_strides = p.count > 1 || (p.source_stride == 0 && p.target_stride == 0 && p.logical_stride == 0);
    if (!sane || !no_idle_strides) return false;
    std::int64_t s = p.source_begin;
    std::int64_t t = p.target_begin;
    std::int64_t l = p.logical_begin;
    for (std::int64_t block = 0; block < p.count; ++block) {
      if (l < behind || !Holds(source, s, l, p.length) || !Holds(target, t, l, p.length)) return false;
      behind = l + p.length;
      s += p.source_stride;
      t += p.target_stride;
      l += p.logical_stride;
    }
    positions += p.elements();
  }
  return positions == CommonPositions(source, target);
}

// Which part of which progression of the geometry a clipped progression is: blocks [first_block, last_block) and of
// each the offsets [first_offset, last_offset).
struct Part {
  std::size_t progression = 0;
  std::int64_t first_block = 0;
  std::int64_t last_block = 0;
  std::int64_t first_offset = 0;
  std::int64_t last_offset = 0;
};

bool Disjoint(const Part& a, const Part& b) {
  return a.progression != b.progression || a.last_block <= b.first_block || b.last_block <= a.first_block ||
         a.last_offset <= b.first_offset || b.last_offset <= a.first_offset;
}

std::optional<Part> FindPart(const Progression& clipped, const std::vector<Progression>& whole) {
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
      return Part{i, block, block + clipped.count, offset, offset + clipped.length};
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

// Real elements of the row-major local tensor that lie before local place `flat`.
std::int64_t RealElementsBefore(const ProductSet& set, std::int64_t flat) {
  std::int64_t inner_real = set.real_elements();
  std::int64_t inner_local = set.local_elements();
  if (flat >= inner_local) return inner_real;
  std::int64_t before = 0;
  for (const Selection& dim : set.dims) {
    inner_local /= dim.local_length();
    inner_real = dim.real_length() == 0 ? 0 : inner_real / dim.real_length();
    std::int64_t local = flat / inner_local;
    flat %= inner_local;
    std::int64_t real_before = 0;
    bool is_real = false;
    for (const Run& run : dim.runs()) {
      real_before += std::clamp<std::int64_t>(local - run.local_begin, 0, run.length);
      is_real = is_real || (run.local_begin <= local && local < run.local_begin + run.length);
    }
    before += real_before * inner_real;
    if (!is_real) return before;
  }
  return before;
}

// Whether the step's loops walk the box in the same way: the box's own loops, innermost first, taken together where one
// continues the other, must be the step's.
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

// Local flat places of a box's first and last element.
std::pair<std::int64_t, std::int64_t> Corners(const Step& step, const std::vector<std::int64_t>& strides,
                                              bool is_source) {
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < step.box.size(); ++d) {
    const Progression& p = *step.box[d];
    std::int64_t begin = is_source ? p.source_begin : p.target_begin;
    std::int64_t stride = is_source ? p.source_stride : p.target_stride;
    first += begin * strides[d];
    last += (begin + (p.count - 1) * stride + p.length - 1) * strides[d];
  }
  return {first, last};
}

class StepWalk {
 public:
  explicit StepWalk(const Plan& plan) : plan_(plan), steps_(plan) {
    for (const Geometry& geometry : plan.geometries) geometries_[{geometry.source, geometry.target}] = &geometry;
  }

  llvm::Error Run() {
    llvm::Error error = llvm::Error::success();
    ForEachTargetRange(plan_, [&](const TargetRange& range) {
      if (!error) error = VerifyRange(range);
    });
    if (error) return error;
    return VerifyReadsAreUsed();
  }

 private:
  llvm::Error VerifyRange(const TargetRange& range) {
    const PlanWrite& write = plan_.writes[range.write];
    const LogicalTensor& tensor = plan_.tensor(write.tensor).logical;
    std::int64_t copied = 0;
    std::map<std::size_t, std::vector<std::vector<Part>>> boxes_of_read;
    std::string flaw;
    steps_.ForEachStep(range, [&](const Step& step) {
      if (!flaw.empty()) return;
      std::vector<Part> parts;
      flaw = StepFlaw(range, step, parts);
      for (const std::vector<Part>& other : boxes_of_read[step.read]) {
        bool disjoint = false;
        for (std::size_t d = 0; d < parts.size() && flaw.empty(); ++d) disjoint |= Disjoint(parts[d], other[d]);
        if (!disjoint && flaw.empty()) flaw = "two steps of one shard write the same element";
      }
      boxes_of_read[step.read].push_back(std::move(parts));
      used_[{step.read, range.state}] += step.elements();
      if (step.role == ReadRole::kCopy) copied += step.elements();
    });
    if (!flaw.empty()) return Unsound("tensor `{}`, state {}: {}", tensor.name, range.state, flaw);
    const ProductSet& set = plan_.set(write.set);
    std::int64_t real = RealElementsBefore(set, range.end) - RealElementsBefore(set, range.begin);
    if (copied != real) {
      return Unsound("tensor `{}`, state {}: {} of {} elements of `{}` would be written", tensor.name, range.state,
                     copied, real, plan_.target.file(range.record).path);
    }
    return llvm::Error::success();
  }

  // Empty if the step is right; `parts` says which part of the geometry it is.
  std::string StepFlaw(const TargetRange& range, const Step& step, std::vector<Part>& parts) const {
    const PlanWrite& write = plan_.writes[range.write];
    const PlanRead& read = plan_.reads[step.read];
    const ProductSet& source_set = plan_.set(read.set);
    const ProductSet& target_set = plan_.set(write.set);
    auto geometry = geometries_.find({read.set, write.set});
    if (read.tensor != write.tensor || geometry == geometries_.end()) return "a step has no geometry";
    for (std::size_t d = 0; d < step.box.size(); ++d) {
      std::optional<Part> part = FindPart(*step.box[d], geometry->second->dims[d]);
      if (!part) return "a step is no part of its geometry";
      parts.push_back(*part);
    }
    std::vector<std::int64_t> row_major = Strides(source_set, {});
    std::vector<std::int64_t> source_strides = Strides(source_set, read.strides);
    std::vector<std::int64_t> target_strides = Strides(target_set, {});
    if (!LoopsAreTheBox(step, source_strides, target_strides)) return "the loops of a step are not its box";

    auto [target_first, target_last] = Corners(step, target_strides, false);
    if (target_first < range.begin || target_last >= range.end || step.target != range.record ||
        step.target_element != range.record_element + target_first - range.begin) {
      return "a step leaves its target range";
    }
    return SourceFlaw(range, step, Corners(step, row_major, true), Corners(step, source_strides, true));
  }

  // `flat`: the corners as places of the row-major local tensor; `strided`: as distances in the buffer.
  std::string SourceFlaw(const TargetRange& range, const Step& step, std::pair<std::int64_t, std::int64_t> flat,
                         std::pair<std::int64_t, std::int64_t> strided) const {
    const PlanRead& read = plan_.reads[step.read];
    std::optional<BufferId> id = FindState(plan_.source.buffer_set(read.states), SourceState(read.role, range.state));
    if (!id) return "a step reads a state that its shard does not have";
    const Buffer& buffer = plan_.source.buffer(*id);
    auto parts = static_cast<std::int64_t>(buffer.parts.size());
    std::int64_t part = 0;
    std::int64_t last_part = 0;
    std::int64_t first_place = read.base + strided.first;
    std::int64_t last_place = read.base + strided.second;
    if (parts > 1 && read.spread == Spread::kAcrossBuffer) {
      part = first_place / buffer.part_elements;
      last_part = last_place / buffer.part_elements;
      first_place -= part * buffer.part_elements;
      last_place -= last_part * buffer.part_elements;
    } else if (parts > 1) {
      std::int64_t elements = plan_.set(read.set).local_elements();
      std::int64_t each = elements / parts + (elements % parts != 0 ? 1 : 0);
      part = flat.first / each;
      last_part = flat.second / each;
      first_place = read.base + flat.first % each;
      last_place = read.base + flat.second % each;
    }
    if (part != last_part || part >= parts) return "a step reads across the parts of a buffer";
    const BufferPart& held = buffer.parts[static_cast<std::size_t>(part)];
    if (last_place >= held.elements) {
      return fmt::format("a step reads element {} of a part of {} elements in `{}`", last_place, held.elements,
                         plan_.source.file(held.record).path);
    }
    if (step.source != held.record || step.source_element != held.first_element + first_place) {
      return "a step reads from another place than its box says";
    }
    return "";
  }

  // Every element of every read is used in every state that the target has: nothing that should be compared is left
  // out.
  llvm::Error VerifyReadsAreUsed() const {
    for (std::size_t r = 0; r < plan_.reads.size(); ++r) {
      const PlanRead& read = plan_.reads[r];
      if (read.role == ReadRole::kUnused) continue;
      const LogicalTensor& tensor = plan_.tensor(read.tensor).logical;
      for (const LogicalTensor::State& state : tensor.states) {
        if (!FindState(plan_.source.buffer_set(read.states), SourceState(read.role, state.name))) continue;
        auto used = used_.find({r, state.name});
        std::int64_t elements = used == used_.end() ? 0 : used->second;
        std::int64_t expected = plan_.set(read.set).real_elements();
        if (elements < expected) {
          return Unsound("tensor `{}`, state {} at {}: {} of {} source elements would be used", tensor.name, state.name,
                         ToString(read.coordinate), elements, expected);
        }
      }
    }
    return llvm::Error::success();
  }

  const Plan& plan_;
  StepEnumerator steps_;
  std::map<std::pair<SetId, SetId>, const Geometry*> geometries_;
  std::map<std::pair<std::size_t, std::string>, std::int64_t> used_;
};

}  // namespace

llvm::Error VerifyGeometries(const Plan& plan) {
  for (std::size_t g = 0; g < plan.geometries.size(); ++g) {
    const Geometry& geometry = plan.geometries[g];
    if (geometry.source.index() >= plan.sets.size() || geometry.target.index() >= plan.sets.size()) {
      return Unsound("geometry {} names product sets {} and {}", g, geometry.source, geometry.target);
    }
    const ProductSet& source = plan.set(geometry.source);
    const ProductSet& target = plan.set(geometry.target);
    bool ranks_agree = geometry.dims.size() == source.dims.size() && geometry.dims.size() == target.dims.size();
    if (!ranks_agree) return Unsound("geometry {} has {} dimensions", g, geometry.dims.size());
    for (std::size_t d = 0; d < geometry.dims.size(); ++d) {
      if (geometry.dims[d].empty()) return Unsound("geometry {} is empty in dimension {}", g, d);
      if (!DimensionIsRight(geometry.dims[d], source.dims[d], target.dims[d])) {
        return Unsound("geometry {} does not pair the positions of {} and {} in dimension {}", g,
                       ToString(source.dims[d]), ToString(target.dims[d]), d);
      }
    }
    if (g > 0 && std::pair(plan.geometries[g - 1].source, plan.geometries[g - 1].target) >=
                     std::pair(geometry.source, geometry.target)) {
      return Unsound("its geometries are not sorted");
    }
  }
  return llvm::Error::success();
}

llvm::Error VerifySteps(const Plan& plan) { return StepWalk(plan).Run(); }

}  // namespace ucp
