// Finds the spec of the catalogue that says how a checkpoint is cut, when the user names none. A spec fits if its
// names, shapes and cuts agree with the checkpoint's. One is picked only if it alone fits, or if all that fit mean the
// same for this checkpoint.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/bind/bind.h"
#include "compiler/layout/layout.h"
#include "compiler/open/opened_spec.h"

namespace ucp {

struct PickedSpec {
  std::string name;               // The first by name of those that fit.
  std::vector<std::string> same;  // Others that fit and mean the same.
  std::string why;                // "spec `llama` of the catalogue fits, and no other: …", for the report.
  OpenedSpec session;
  BoundSpec bound;
  Layout layout;
  Layout target;  // On the ranks that a target is cut over; else the same.
};

// Tries the specs `names` of the catalogue. One whose patterns cannot print a name of the checkpoint is put aside
// before anything is bound, so trying is linear in names and specs. Diagnostics of a spec that does not fit are not
// shown.
//
// Fails with kUsage if none fits, with the first reasons of those that come nearest, or if several fit and differ, with
// a tensor for which they do. `cut_over`: how many tensor-parallel ranks a target has; of fewer than two, the source's
// own.
llvm::Expected<PickedSpec> PickSpec(const std::vector<std::string>& names, const Inventory& inventory,
                                    const Settings& set, std::int64_t cut_over);

// Returns the name of the model of the catalogue that has a layout `layout`, and another or the same that fits the
// checkpoint. Fails with kUsage if there is none, with the first reasons of those that come nearest, or if several fit.
llvm::Expected<std::string> PickModel(const Inventory& inventory, const Settings& set, const std::string& layout);

}  // namespace ucp
