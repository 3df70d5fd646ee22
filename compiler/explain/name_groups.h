// Names that differ in their numbers only, gathered: the layers of a model, and the experts of each layer, are one line
// of a report.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ucp {

// `kind`: names are gathered only with names of the same kind.
struct NameOfKind {
  std::string name;
  std::string kind;
};

struct NameGroup {
  std::string name;                  // "layers.{0-31}.experts.{0-7}.w1": every choice of numbers is a member.
  std::vector<std::size_t> members;  // Places in what was gathered, in that order.
};

// Returns the groups in the order of each group's first member.
std::vector<NameGroup> GroupNames(const std::vector<NameOfKind>& names);

}  // namespace ucp
