// The steps of a plan, enumerated from its tables: strided copies, each from one record of the source into one record
// of the target. Nothing is stored, so a plan of a hundred million steps is a few megabytes, and any part of a target
// can be asked for by itself: a chunk of work is a flat range of one written shard, and its steps are those that fill
// it.
//
// The steps that fill a part of a fused shard are those of its tensors, one after the other; where they are sums of
// several terms, term after term.
//
// The rule behind it: a flat range of a row-major local tensor is the tensor's product set within one lexicographic
// interval of logical indices. Two shards with flat ranges therefore meet in the common part of their product sets (the
// geometry), within the later start and the earlier end: at most 2 * rank - 1 boxes. Where a fused shard has the
// dimensions of a piece in another order (piece_places.h), the starts and the ends are not of one order: each of the 2
// * rank - 1 boxes of the target's interval is cut again by the source's.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/boxes.h"
#include "compiler/plan/geometry_index.h"
#include "compiler/plan/piece_places.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/state_feeds.h"
#include "compiler/sets/box_index.h"

namespace ucp {

struct Step {
  ReadRole role = ReadRole::kCopy;
  TensorId tensor;
  std::size_t read = 0;   // Index in Plan::reads.
  std::int64_t term = 0;  // Its PlanRead::term.
  RecordId source;
  std::int64_t source_element = 0;  // Of the record, counted in the source's dtype.
  RecordId target;
  std::size_t piece = 0;  // Index in PlanWrite::pieces.
  std::int64_t target_element = 0;
  std::int64_t run_elements = 0;         // Innermost: contiguous on both sides.
  llvm::SmallVector<StepLoop, 4> loops;  // Around it, outermost first. Empty: one run.
  DType source_dtype = DType::kFloat32;
  DType target_dtype = DType::kFloat32;
  // The box in local and logical indices that this step was made from; valid during the visit only. Empty for a tensor
  // without dimensions, and for a joined step.
  llvm::ArrayRef<const Progression*> box;

  std::int64_t elements() const;
};

// "copy decoder.weight fp32: r3[128 x 16 every 32] -> r9[0 x 16 every 16]": the printed form, the same everywhere.
std::string ToString(const Plan& plan, const Step& step);

// A part of a written shard: local elements [begin, end) of one written shard in one state, within one target part.
struct TargetRange {
  std::size_t write = 0;  // Index in Plan::writes.
  std::string state;
  RecordId record;
  std::int64_t record_element = 0;  // Where in the record local element `begin` lies.
  std::int64_t begin = 0;
  std::int64_t end = 0;
  DType dtype = DType::kFloat32;
  DType source_dtype = DType::kFloat32;  // The dtype of its elements before they are cast.
  std::int64_t offset = 0;               // Plan::OffsetOf().
};

// Everything the plan writes, as one range for each written shard, state and part, in the order of the plan; padding
// parts that hold no element are left out.
void ForEachTargetRange(const Plan& plan, llvm::function_ref<void(const TargetRange&)> visit);

// Does the same for one written shard and one of its states.
void ForEachTargetRangeOf(const Plan& plan, const StateFeeds& feeds, std::size_t write, const StateBuffer& state,
                          llvm::function_ref<void(const TargetRange&)> visit);

// Where ranks of the target hold the same: whether the source's replicas are compared with the first of them, so that
// the others are copies of the same elements, or with each, for a rank that makes only some of them.
enum class ComparedWrites { kFirstOfEqual, kEach };

class StepEnumerator {
 public:
  // The plan must be verified and outlive this. Linear in its tables.
  explicit StepEnumerator(const Plan& plan, ComparedWrites compared = ComparedWrites::kFirstOfEqual);

  // The steps that fill `range` (a range that ForEachTargetRange gave, or a part of one), copies first, and those that
  // compare with it behind them; where a tensor has several terms, one term after the other. Safe to call from
  // several threads.
  void ForEachStep(const TargetRange& range, llvm::function_ref<void(const Step&)> visit) const;

  // Visits those of them that are of one tensor of a fused shard.
  void ForEachStepOf(TensorId tensor, const TargetRange& range, llvm::function_ref<void(const Step&)> visit) const;

  // The same elements in the same order, in no more steps, for code that moves them: where both sides hold the same set
  // of a tensor, local element i of the one is local element i of the other, so that elements in one record are one
  // run, and no index has to be computed. So it is wherever only ZeRO's partitions change.
  void ForEachJoinedStep(const TargetRange& range, llvm::function_ref<void(const Step&)> visit) const;

  // Returns whether an earlier rank of the target also holds all of that state of a written shard.
  bool IsRepeated(std::size_t write, const std::string& state) const;

  // Those of Plan::reads that may have elements of one of its tensors in common with a written shard, ascending: all of
  // the tensor, or of a tensor with many reads those whose bounding boxes meet the shard's.
  using Reads = llvm::SmallVector<std::size_t, 8>;
  Reads ReadsFor(const PlanWrite& write, TensorId tensor) const;

 private:
  struct PieceOfRange;
  struct PiecesOfTensor;
  // The bounding boxes of a tensor's reads, numbered from its first one.
  void AddIndices();
  void AddRepetitions();
  using VisitStep = llvm::function_ref<void(const Step&)>;
  void Enumerate(const TargetRange& range, bool joins, VisitStep visit) const;
  void EnumerateTensor(const TargetRange& range, PiecesOfTensor of_tensor, bool joins, VisitStep visit) const;
  llvm::SmallVector<PieceOfRange, 1> PiecesIn(const TargetRange& range, PiecesOfTensor of_tensor) const;
  static std::pair<std::int64_t, std::int64_t> LocalPlacesOf(const ProductSet& source, const PieceOfRange& piece);
  bool IsHeldAlike(const PlanRead& read, const PlanWrite& write) const;
  void ForEachRunOfPair(const TargetRange& range, std::size_t r, VisitStep visit) const;
  void ForEachStepOfPair(const TargetRange& range, std::size_t r, const PieceOfRange& piece, VisitStep visit) const;

  const Plan& plan_;
  const ComparedWrites compared_;
  std::vector<std::pair<std::size_t, std::size_t>> reads_of_tensor_;  // [first, last) of Plan::reads, by tensor.
  std::map<TensorId, BoxIndex> index_of_tensor_;                      // Of those with many reads.
  std::vector<std::uint32_t> held_alike_;  // By write: the one before that holds the same; itself if there is none.
  std::vector<bool> is_dense_;             // By SetId: who has it on both sides has no padding, and copies it.
  GeometryIndex geometries_;
  StateFeeds feeds_;
};

}  // namespace ucp
