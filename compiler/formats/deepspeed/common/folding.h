// The entry `folding`, which DeepSpeed puts into every file of a checkpoint whose experts AutoEP spreads over all ranks
// of a run, tensor-parallel ones too, while tensor-parallel ranks cut the rest of the model ("folding" the one mesh
// onto the other). It says whose file this is.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp {

struct Folding {
  std::int64_t tp_size = 1;
  std::int64_t tp_rank = 0;
  std::int64_t ep_size = 1;
  std::int64_t ep_rank = 0;
  // The ranks that share the contents of the file: "dense_dp" in model-states files, "edp" in those of an expert's
  // weights, "per_family" in those of the optimizer, whose count and rank are those of the former.
  std::string partition_group;
  std::int64_t partition_count = 1;
  std::optional<std::int64_t> partition_rank;  // Of those that save an expert's file each writes its own: the last's.
};

// Returns the entry of `root`, a dict read from the file `where`; nothing if it has none. Another version than 1, and
// experts that are cut themselves (`etp_size`), are kUnsupported.
llvm::Expected<std::optional<Folding>> ReadFolding(const pytorch::Value& root, const std::string& where);

// Returns the value of such an entry. `param_families`, DeepSpeed's entry on each tensor, stands in it unless it is
// null.
pytorch::ValuePtr ComposeFolding(const Folding& folding, const pytorch::ValuePtr& param_families = nullptr);

// Checks that the file `where` says what it must, by its name and `ds_autoep_layers` in `layers`. Fails with both
// values, and where there is no such entry while ranks are counted so. An expected `partition_rank` of nothing is not
// compared.
[[nodiscard]] llvm::Error CheckFolding(const std::optional<Folding>& found, const std::string& where,
                                       const Folding& expected, const std::string& layers);

}  // namespace ucp
