// Finds the tensor of the header that shows how large the dims of a declaration are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/expand_pattern.h"
#include "compiler/bind/values/inventory_index.h"
#include "compiler/spec/spec.h"

namespace ucp {

struct ExampleTensor {
  const Shard* shard = nullptr;
  std::vector<std::int64_t> counters;  // The value of each counter of its name; none if the name alone was looked at.
};

class ExampleTensors {
 public:
  // `values` grow while they are being found; the objects that they refer to, and `found`, must outlive this.
  ExampleTensors(const Values& values, const InventoryIndex& found);

  // Returns nothing if the header has no tensor that is known to be of this declaration, so far: asked again when more
  // dims and facts have values, there may be one.
  std::optional<ExampleTensor> Of(std::size_t declaration);

  const InventoryIndex& found() const { return found_; }

 private:
  void ChooseByName();
  bool KnowsItsNames(const TensorDeclaration& tensor) const;
  void ChooseByCounters(std::size_t declaration);

  struct Choice {
    bool guards_count = false;                 // Whether its guards speak of counters.
    bool counts = false;                       // Whether its guards or its dims do.
    const Shard* by_name = nullptr;            // A tensor whose name no other declaration fits.
    bool expanded = false;                     // Whether its names have been looked for, with their counters.
    std::optional<ExampleTensor> by_counters;  // The first of them that the header has.
  };

  Values values_;
  const InventoryIndex& found_;
  DiagnosticSink ignored_;  // The expansion of the whole spec meets the same mistakes again.
  Expander expander_;
  std::vector<Choice> choices_;
};

}  // namespace ucp
