// From one layout of a model to another: of each tensor of the second, the elements that it has in common with tensors
// of the first. Two pieces of one part meet in the places that both have of each factor.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/common_elements.h"
#include "compiler/bind/stored_parts.h"

namespace ucp {

// By the names of the target's tensors. Those of optional tensors of which the source has nothing are left out.
using CommonOfTensors = std::map<std::string, std::vector<CommonElements>>;

// Both sides of a conversion within a model: its bound layout, and FindStoredParts() of that.
struct LayoutOfModel {
  const BoundSpec& bound;
  const StoredParts& stored;
};

// Returns nothing after reporting elements that one side stores and the other does not (part-missing), or a move that
// takes more pieces than a plan may have.
std::optional<CommonOfTensors> FindCommonElements(const LayoutOfModel& source, const LayoutOfModel& target,
                                                  DiagnosticSink& sink);

}  // namespace ucp
