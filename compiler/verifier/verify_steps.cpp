// The walk over all steps, tensor by tensor. For each target range and each read, the boxes that the enumerator shows
// are checked to be parts of the geometry (which V3 has proved), to lie within both flat ranges, to be disjoint, and to
// be written down rightly as loops. Since the kCopy reads of a tensor are a partition of it (V4), boxes that are
// disjoint and together as many elements as the range has real places fill it exactly once.
//
// Shards of one signature (step_signature.h) have the same steps but for where they lie, and V1 has seen that they lie
// inside their parts: the walk is over one of them.
#include "compiler/verifier/verify_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "compiler/plan/geometry_index.h"
#include "compiler/plan/steps.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/verifier/shards_of_tensors.h"
#include "compiler/verifier/step_geometry.h"
#include "compiler/verifier/step_signature.h"
#include "compiler/verifier/unsound.h"

namespace ucp {
namespace {

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
  explicit StepWalk(const Plan& plan)
      : plan_(plan), steps_(plan), feeds_(plan), signatures_(plan, steps_), geometries_(plan), shards_(plan) {}

  llvm::Error Run() {
    for (std::size_t t = 0; t < plan_.tensors.size(); ++t) {
      const TensorId tensor(t);
      tallies_.clear();
      for (std::uint32_t w : shards_.WritesOf(tensor)) {
        UCP_RETURN_IF_ERROR(CheckInterrupted());
        const StepEnumerator::Reads reads = steps_.ReadsFor(plan_.writes[w], tensor);
        for (const StateBuffer& entry : plan_.target.buffer_set(plan_.writes[w].states)) {
          UCP_RETURN_IF_ERROR(VerifyState(w, tensor, entry, reads));
        }
      }
      UCP_RETURN_IF_ERROR(VerifyReadsAreUsed(tensor));
    }
    return llvm::Error::success();
  }

 private:
  // How many elements of each read the steps use: of a tensor's reads, or of those that a shard may have elements of.
  using Tally = std::vector<std::int64_t>;

  struct TallyOfState {
    std::string_view state;
    Tally used;
    Tally expected;
  };

  llvm::Error VerifyState(std::size_t w, TensorId tensor, const StateBuffer& entry,
                          const StepEnumerator::Reads& reads) {
    const llvm::ArrayRef<PlanRead> of_tensor = shards_.ReadsOf(tensor);
    std::optional<StepSignature> signature = signatures_.Of(w, tensor, entry, reads);
    auto known = signature ? known_.find(*signature) : known_.end();
    Tally walked;
    if (known == known_.end()) {
      walked.assign(reads.size(), 0);
      llvm::Error error = llvm::Error::success();
      ForEachTargetRangeOf(plan_, feeds_, w, entry, [&](const TargetRange& range) {
        if (!error) error = VerifyRange(range, tensor, reads, walked);
      });
      if (error) return error;
      if (signature) known_.emplace(std::move(*signature), walked);
    }
    const Tally& tally = known == known_.end() ? walked : known->second;
    Tally& used = TallyOf(entry.state, of_tensor.size()).used;
    for (std::size_t i = 0; i < tally.size(); ++i) used[PlaceOf(reads[i], of_tensor)] += tally[i];
    return llvm::Error::success();
  }

  // Among the reads of its tensor.
  std::size_t PlaceOf(std::size_t read, llvm::ArrayRef<PlanRead> of_tensor) const {
    return static_cast<std::size_t>(&plan_.reads[read] - of_tensor.data());
  }

  // Of the tensor that is looked at. It has few states.
  TallyOfState& TallyOf(std::string_view state, std::size_t reads) {
    for (TallyOfState& tally : tallies_) {
      if (tally.state == state) return tally;
    }
    return tallies_.emplace_back(state, Tally(reads, 0), Tally(reads, 0));
  }

  // The elements of one tensor in a range.
  llvm::Error VerifyRange(const TargetRange& range, TensorId id, const StepEnumerator::Reads& reads,
                          Tally& tally) const {
    const PlanWrite& write = plan_.writes[range.write];
    const LogicalTensor& tensor = plan_.tensor(id).logical;
    std::map<std::int64_t, std::int64_t> copied;  // By term.
    std::int64_t term = 0;
    // Of a read and a piece, by record: what lies in several records is in several parts of the source, and so
    // disjoint.
    std::map<std::tuple<std::size_t, std::size_t, RecordId>, std::vector<std::vector<GeometryPart>>> boxes;
    std::string flaw;
    steps_.ForEachStepOf(id, range, [&](const Step& step) {
      if (!flaw.empty()) return;
      std::vector<GeometryPart> parts;
      flaw = StepFlaw(range, step, parts);
      std::vector<std::vector<GeometryPart>>& others = boxes[{step.read, step.piece, step.source}];
      for (const std::vector<GeometryPart>& other : others) {
        bool disjoint = false;
        for (std::size_t d = 0; d < parts.size() && flaw.empty(); ++d) disjoint |= Disjoint(parts[d], other[d]);
        if (!disjoint && flaw.empty()) flaw = "two steps of one shard write the same element";
      }
      others.push_back(std::move(parts));
      const auto* read = std::lower_bound(reads.begin(), reads.end(), step.read);
      if (read == reads.end() || *read != step.read) {
        flaw = "a step is of a read that has nothing in common with its shard";
        return;
      }
      tally[static_cast<std::size_t>(read - reads.begin())] += step.elements();
      if (step.role == ReadRole::kCopy) copied[step.term] += step.elements();
      if (step.term < term && flaw.empty()) flaw = "its terms are not in order";
      term = step.term;
    });
    if (!flaw.empty()) return Unsound("tensor `{}`, state {}: {}", tensor.name, range.state, flaw);
    std::int64_t real = 0;
    for (const WrittenPiece& piece : write.pieces) {
      if (piece.tensor != id) continue;
      const ProductSet& set = plan_.set(piece.set);
      real += RealElementsBefore(set, piece, range.end) - RealElementsBefore(set, piece, range.begin);
    }
    for (std::int64_t t = 0; t < plan_.tensor(id).arithmetic.terms; ++t) {
      if (copied[t] == real) continue;
      return Unsound("tensor `{}`, state {}: {} of {} elements of `{}` would be written", tensor.name, range.state,
                     copied[t], real, plan_.target.file(range.record).path);
    }
    return llvm::Error::success();
  }

  // Empty if the step is right; `parts` says which part of the geometry it is.
  std::string StepFlaw(const TargetRange& range, const Step& step, std::vector<GeometryPart>& parts) const {
    const PlanWrite& write = plan_.writes[range.write];
    const PlanRead& read = plan_.reads[step.read];
    const ProductSet& source_set = plan_.set(read.set);
    if (step.piece >= write.pieces.size()) return "a step writes to no piece";
    const WrittenPiece& piece = write.pieces[step.piece];
    const Geometry* geometry = geometries_.Find(read.set, piece.set);
    if (read.tensor != piece.tensor || geometry == nullptr) return "a step has no geometry";
    for (std::size_t d = 0; d < step.box.size(); ++d) {
      std::optional<GeometryPart> part = FindPart(*step.box[d], geometry->dims[d]);
      if (!part) return "a step is not a part of its geometry";
      parts.push_back(*part);
    }
    std::vector<std::int64_t> row_major = Strides(source_set, {});
    std::vector<std::int64_t> source_strides = Strides(source_set, read.strides);
    std::vector<std::int64_t> target_strides = Strides(plan_.set(piece.set), piece.strides);
    if (!LoopsAreTheBox(step, source_strides, target_strides)) return "the loops of a step are not its box";

    auto [target_first, target_last] = Corners(step, target_strides, StepSide::kTarget);
    target_first += piece.begin;
    target_last += piece.begin;
    if (target_first < range.begin || target_last >= range.end || step.target != range.record ||
        step.target_element != range.record_element + target_first - range.begin) {
      return "a step leaves its target range";
    }
    return SourceFlaw(range, step, Corners(step, row_major, StepSide::kSource),
                      Corners(step, source_strides, StepSide::kSource));
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
  llvm::Error VerifyReadsAreUsed(TensorId tensor) {
    const llvm::ArrayRef<PlanRead> reads = shards_.ReadsOf(tensor);
    AddExpected(tensor, reads);
    for (const TallyOfState& tally : tallies_) {
      for (std::size_t r = 0; r < reads.size(); ++r) {
        if (tally.used[r] == tally.expected[r]) continue;
        return Unsound("tensor `{}`, state {} at {}: {} of {} source elements would be used",
                       plan_.tensor(tensor).logical.name, tally.state, ToString(reads[r].coordinate), tally.used[r],
                       tally.expected[r]);
      }
    }
    return llvm::Error::success();
  }

  // For each state of the target: how many elements each read that serves it has in common with all that is written. A
  // replica is compared with one of those that hold the same.
  void AddExpected(TensorId tensor, llvm::ArrayRef<PlanRead> reads) {
    std::set<std::pair<std::vector<WrittenPiece>, std::string_view>> written;
    const llvm::ArrayRef<std::uint32_t> writes = shards_.WritesOf(tensor);
    for (std::uint32_t w : writes) {
      const PlanWrite& write = plan_.writes[w];
      const StepEnumerator::Reads meeting = steps_.ReadsFor(write, tensor);
      Tally common;  // Of what is written, with each of these: the same in all states.
      for (std::size_t r : meeting) common.push_back(CommonElements(plan_.reads[r], write));
      for (const StateBuffer& entry : plan_.target.buffer_set(write.states)) {
        const bool is_first = writes.size() == 1 || written.emplace(write.pieces, entry.state).second;
        Tally& expected = TallyOf(entry.state, reads.size()).expected;
        for (std::size_t i = 0; i < meeting.size(); ++i) {
          const PlanRead& read = plan_.reads[meeting[i]];
          if (read.role != ReadRole::kCopy && !is_first) continue;
          if (feeds_.Find(read, entry.state)) expected[PlaceOf(meeting[i], reads)] += common[i];
        }
      }
    }
  }

  std::int64_t CommonElements(const PlanRead& read, const PlanWrite& write) const {
    std::int64_t common = 0;
    for (const WrittenPiece& piece : write.pieces) {
      if (piece.tensor != read.tensor) continue;
      if (const Geometry* geometry = geometries_.Find(read.set, piece.set)) common += Elements(*geometry);
    }
    return common;
  }

  const Plan& plan_;
  StepEnumerator steps_;
  StateFeeds feeds_;
  StepSignatures signatures_;
  std::map<StepSignature, Tally> known_;
  GeometryIndex geometries_;
  const ShardsOfTensors shards_;
  std::vector<TallyOfState> tallies_;  // Of the tensor that is looked at.
};

}  // namespace

llvm::Error VerifySteps(const Plan& plan) { return StepWalk(plan).Run(); }

}  // namespace ucp
