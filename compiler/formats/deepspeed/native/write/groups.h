// The optimizer's groups as the engine of the target makes them: which parameters each rank flattens, in which order.
//
// The loader checks no names, so an order that is not the engine's own would load and be wrong. The order is that of
// the source's groups. Where a pipeline is cut otherwise, it follows from the names (pipeline_order.h).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/experts.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"
#include "compiler/formats/format.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp::deepspeed {

// One parameter in a rank's flat group.
struct PlacedParameter {
  std::string name;  // As this rank's engine calls it: the first name of a tied one.
  const LogicalTensor* tensor = nullptr;
  std::vector<std::int64_t> shape;  // Local.
  std::int64_t offset = 0;          // At stage 3 in each partition, else in the flat vector.
  std::int64_t elements = 0;
  std::int64_t padding = 0;  // Zeros behind it (parameter_alignment).
  std::string held = {};     // SteppedPiece::held, if there are loose states.
};

// Returns the part of a file in which this rank has it, from element `base` of the states' buffers on.
Shard ShardOf(const PlacedParameter& parameter, const Coordinate& coordinate, std::int64_t base, BufferSetId states);

// A vector that the optimizer steps: a group, or at stage 3 one of its sub-groups.
struct FlatGroupToWrite {
  std::size_t group = 0;  // Of TrainingState::groups. A rank has only those of which it holds a parameter.
  std::vector<PlacedParameter> parameters;
  std::vector<std::int64_t> ranks;      // The ZeRO ranks with a partition of it, in order.
  std::int64_t elements = 0;            // With the zeros between parameters, without those at the end.
  std::int64_t partition_elements = 0;  // Of each of the partitions.
  bool of_experts = false;              // Each expert rank has another one in its place.
  // Of each partition, and without ZeRO of each tensor that is stepped; or empty.
  std::vector<std::vector<const LooseState*>> loose = {};
};

// The flat groups of one model-parallel rank. `coordinate` has pp and tp, and for experts ep.
class GroupsToWrite {
 public:
  // The arguments must outlive this object.
  GroupsToWrite(const TargetRequest& request, const WriteOptions& options, const ExpertsToWrite& experts)
      : request_(request), options_(options), experts_(experts) {}

  // Every parameter of the layout is in one group. Call first. Names what cannot be ordered.
  [[nodiscard]] llvm::Error Order();

  llvm::Expected<std::vector<FlatGroupToWrite>> OfRank(const Coordinate& coordinate) const;

 private:
  struct Ordered {
    std::string name;
    const LogicalTensor* tensor = nullptr;
    const TensorLayout* layout = nullptr;
  };
  // Returns the parameters in the group's own order, not placed yet.
  llvm::Expected<FlatGroupToWrite> HeldOf(std::size_t g, const Coordinate& coordinate) const;
  // Flattens the group as zero12_groups.h has it; without ZeRO, one part with no padding.
  void Flatten(FlatGroupToWrite& group) const;
  // Cuts the group as zero3_states.h has it.
  std::vector<FlatGroupToWrite> CutIntoSubGroups(FlatGroupToWrite group) const;
  llvm::Expected<Ordered> Find(const std::string& name) const;
  std::vector<std::int64_t> AllRanks() const;
  [[nodiscard]] llvm::Error CheckEveryParameter() const;
  [[nodiscard]] llvm::Error CheckSameStates(const std::vector<Ordered>& group) const;

  const TargetRequest& request_;
  const WriteOptions& options_;
  const ExpertsToWrite& experts_;
  std::vector<std::vector<Ordered>> groups_;
};

}  // namespace ucp::deepspeed
