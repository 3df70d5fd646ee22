// A slow and obvious resharder, to judge the planner by. It shares only data structures with the compiler: positions
// are lists of numbers, local tensors are vectors, and every element is a number that says which element it is. It
// builds either side of a conversion (tables of files together with what stands in them), carries a plan out one
// element at a time, and says of the first wrong element where it should be, what is there, and where that came from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"
#include "compiler/plan/plan.h"
#include "compiler/trial/positions.h"

namespace ucp::oracle {

// An element's identity, its value in these tests: state, tensor, logical row-major index.
using Element = std::int64_t;
// kNothing: padding, a gap between tensors, or a place that nobody has written.
Element Identity(std::int64_t state, std::int64_t tensor, std::int64_t index);
// The same as term number `term` of what is added up, and as the sum of the terms up to it.
Element AsTerm(Element element, std::int64_t term);
std::string Spell(Element element);  // "element 17 of tensor 1, state 0"

// How one side lays out the shards of one coordinate.
enum class Style {
  kFlat,        // All tensors behind each other, cut into one part for each rank (ZeRO-1).
  kEachTensor,  // Every tensor cut on its own (ZeRO-3).
  kSingle,      // Each tensor in a record of its own.
  kTransposed,  // The same, column-major and with every second place free. Sources only.
};

struct TensorCut {
  std::vector<ShapeExpr> dims;
  std::optional<std::vector<std::int64_t>> stages = {};           // Nothing: all of them.
  std::map<std::string, std::vector<std::int64_t>> only_at = {};  // As in TensorLayout.
  std::vector<std::string> mean_axes = {};                        // As in TensorLayout.
  std::int64_t terms = 1;                                         // Targets only: of how many terms it is the sum.
};

struct Strategy {
  Mesh mesh;
  Style style = Style::kSingle;
  std::int64_t ranks = 1;  // How many parts a buffer has; kFlat and kEachTensor only.
  std::int64_t gap = 0;    // Free places before each tensor.
  std::int64_t lead = 0;   // Free places before each part, in its record.
  bool stripped = false;   // The last parts end with their last element. Sources only.
  bool weights = false;    // A second shard of every tensor holds the state "weight". Sources only.
  bool moments = true;     // Otherwise there is no state "exp_avg".
  bool apart = false;      // "exp_avg" is in shards of its own, each in a record of its own. Sources only.
  // A second shard of every tensor holds the "weight" that is made from its master, in a type. Targets only.
  std::optional<DType> rounded = std::nullopt;
  bool trained = true;  // Otherwise there are weights alone.
  // Not 0: some tensors are put together to fused shards, with their elements in another order, as this seed has it.
  // Targets only.
  std::uint64_t fuse = 0;
};

using Memory = std::vector<std::vector<Element>>;  // The content of each record, element by element.

struct Side {
  Layout layout;
  TargetFiles files;
  Memory memory;
};

// Tensor number i is named "t<i>". States are "exp_avg" (bfloat16) and "fp32", numbered 0 and 1; "weight" is 2.
// Free places of every record stand in blobs, as a target needs them.
Side Build(const std::vector<TensorCut>& tensors, const Strategy& strategy);
Inventory AsInventory(const Side& side);

struct Outcome {
  Memory target;
  std::string problem;  // Empty: no step left its records, read a free place, wrote a place twice or compared unequal.
  std::size_t most_boxes_of_a_pair = 0;
  std::size_t steps = 0;
};

// The steps to run: StepEnumerator::ForEachStep() or ForEachJoinedStep().
enum class Steps { kOfBoxes, kJoined };

// Carries out every step. Ranges are taken whole, or in chunks of at most `chunk` elements.
Outcome Execute(const Plan& plan, const Memory& source, std::int64_t chunk = 0, Steps form = Steps::kOfBoxes);

// Empty if all that meets in one place of the target (copies, terms, replicas) is of the type that its range says, and
// what is cast are numbers.
std::string FlawOfCasts(const Plan& plan);

// Empty if the records are equal.
std::string Difference(const StorageTables& tables, const Memory& expected, const Memory& found);

// The content that the plan itself gives its source and its target, by its sets, bases and strides alone.
// Nothing if it says two things of one place, or names a place that is none.
std::optional<Memory> SourceAsThePlanSays(const Plan& plan);
std::optional<Memory> TargetAsThePlanSays(const Plan& plan);

}  // namespace ucp::oracle
