// The view of each tensor in the headers of one or two checkpoints, before anything is concluded from it.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/storage.h"

namespace ucp {

using LocalShape = std::vector<std::int64_t>;

struct ObservedTensor {
  std::string name;
  TensorKind kind = TensorKind::kParameter;
  std::vector<LocalShape> by_rank;    // One for each tensor-parallel rank; of equal copies, one.
  std::vector<std::int64_t> stages;   // Sorted: the pipeline stages that hold it.
  std::vector<LocalShape> elsewhere;  // The same from the second checkpoint; empty without one.
  bool first_stage_counts = false;    // Copies on other stages are not trained.
};

struct Observation {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t elsewhere_tp = 1;
  std::int64_t vocabulary_grain = 0;    // `args` has the vocabulary padded to a multiple of this, by tp; 0: of nothing.
  std::vector<ObservedTensor> tensors;  // Sorted by name.
  std::map<std::string, std::string> aliases;  // Second name to first.
};

// Fails where a name has characters that no pattern can, where stages disagree about a shape, where a rank lacks a
// tensor, where the model is spread over another axis than pp and tp, and where `elsewhere` (the same model at another
// degree; may be null) has other tensors.
llvm::Expected<Observation> Observe(const Inventory& inventory, const Inventory* elsewhere);

}  // namespace ucp
