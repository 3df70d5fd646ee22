// The walk over all steps. For each target range and each read, the boxes that the enumerator shows are checked to be
// parts of the geometry (which V3 has proved), to lie within both flat ranges, to be disjoint, and to be written down
// rightly as loops. Since the kCopy reads of a tensor are a partition of it (V4), boxes that are disjoint and together
// as many elements as the range has real places fill it exactly once.
#include "compiler/plan/verify_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/plan/steps.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

template <typename... Args>
llvm::Error Unsound(fmt::format_string<Args...> format, Args&&... args) {
  return Fail(ErrorCode::kBadData, "the plan is not sound: {}", fmt::format(format, std::forward<Args>(args)...));
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

std::int64_t Elements(const Geometry& geometry) {
  std::int64_t elements = 1;
  for (const std::vector<Progression>& dim : geometry.dims) {
    std::int64_t of_dim = 0;
    for (const Progression& p : dim) of_dim += p.elements();
    elements *= of_dim;
  }
  return elements;
}

class StepWalk {
 public:
  explicit StepWalk(const Plan& plan) : plan_(plan), steps_(plan), feeds_(plan) {
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
    std::map<std::int64_t, std::int64_t> copied;  // By term.
    std::int64_t term = 0;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::vector<Part>>> boxes;  // Of a read and a piece.
    std::string flaw;
    steps_.ForEachStep(range, [&](const Step& step) {
      if (!flaw.empty()) return;
      std::vector<Part> parts;
      flaw = StepFlaw(range, step, parts);
      std::vector<std::vector<Part>>& others = boxes[{step.read, step.piece}];
      for (const std::vector<Part>& other : others) {
        bool disjoint = false;
        for (std::size_t d = 0; d < parts.size() && flaw.empty(); ++d) disjoint |= Disjoint(parts[d], other[d]);
        if (!disjoint && flaw.empty()) flaw = "two steps of one shard write the same element";
      }
      others.push_back(std::move(parts));
      used_[{step.read, range.state}] += step.elements();
      if (step.role == ReadRole::kCopy) copied[step.term] += step.elements();
      if (step.term < term && flaw.empty()) flaw = "its terms are not in order";
      term = step.term;
    });
    if (!flaw.empty()) return Unsound("tensor `{}`, state {}: {}", tensor.name, range.state, flaw);
    std::int64_t real = 0;
    for (SetId piece : write.pieces) {
      real += RealElementsBefore(plan_.set(piece), range.end) - RealElementsBefore(plan_.set(piece), range.begin);
    }
    for (std::int64_t t = 0; t < plan_.tensor(write.tensor).arithmetic.terms; ++t) {
      if (copied[t] == real) continue;
      return Unsound("tensor `{}`, state {}: {} of {} elements of `{}` would be written", tensor.name, range.state,
                     copied[t], real, plan_.target.file(range.record).path);
    }
    return llvm::Error::success();
  }

  // Empty if the step is right; `parts` says which part of the geometry it is.
  std::string StepFlaw(const TargetRange& range, const Step& step, std::vector<Part>& parts) const {
    const PlanWrite& write = plan_.writes[range.write];
    const PlanRead& read = plan_.reads[step.read];
    const ProductSet& source_set = plan_.set(read.set);
    if (step.piece >= write.pieces.size()) return "a step writes to no piece";
    const ProductSet& target_set = plan_.set(write.pieces[step.piece]);
    auto geometry = geometries_.find({read.set, write.pieces[step.piece]});
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
    std::optional<BufferId> id = feeds_.Find(read, range.state);
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

  // Every element of every read is used in every state and for every shard that the target has: nothing that should be
  // compared is left out.
  llvm::Error VerifyReadsAreUsed() const {
    std::vector<std::vector<const PlanWrite*>> writes_of_tensor(plan_.tensors.size());
    for (const PlanWrite& write : plan_.writes) writes_of_tensor[write.tensor.index()].push_back(&write);
    for (std::size_t r = 0; r < plan_.reads.size(); ++r) {
      const PlanRead& read = plan_.reads[r];
      if (read.role == ReadRole::kUnused) continue;
      for (const auto& [state, expected] : ExpectedOf(read, writes_of_tensor[read.tensor.index()])) {
        auto used = used_.find({r, state});
        std::int64_t elements = used == used_.end() ? 0 : used->second;
        if (elements == expected) continue;
        return Unsound("tensor `{}`, state {} at {}: {} of {} source elements would be used",
                       plan_.tensor(read.tensor).logical.name, state, ToString(read.coordinate), elements, expected);
      }
    }
    return llvm::Error::success();
  }

  // For each state of the target that the read serves: how many elements it has in common with all that is written.
  // What is compared is compared with one of those that hold the same.
  std::map<std::string, std::int64_t> ExpectedOf(const PlanRead& read,
                                                 const std::vector<const PlanWrite*>& writes) const {
    std::map<std::string, std::int64_t> expected;
    std::set<std::pair<std::vector<SetId>, std::string>> compared;
    for (const PlanWrite* write : writes) {
      std::int64_t common = 0;
      for (SetId piece : write->pieces) {
        auto geometry = geometries_.find({read.set, piece});
        if (geometry != geometries_.end()) common += Elements(*geometry->second);
      }
      for (const StateBuffer& entry : plan_.target.buffer_set(write->states)) {
        if (!feeds_.Find(read, entry.state)) continue;
        const bool is_first = read.role == ReadRole::kCopy || compared.emplace(write->pieces, entry.state).second;
        if (is_first) expected[entry.state] += common;
      }
    }
    return expected;
  }

  const Plan& plan_;
  StepEnumerator steps_;
  StateFeeds feeds_;
  std::map<std::pair<SetId, SetId>, const Geometry*> geometries_;
  std::map<std::pair<std::size_t, std::string>, std::int64_t> used_;
};

}  // namespace

llvm::Error VerifySteps(const Plan& plan) { return StepWalk(plan).Run(); }

}  // namespace ucp
