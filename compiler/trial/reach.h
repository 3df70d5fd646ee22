// The items of a spec that the models of a trial had: what none of them had was not tried, however many of the others
// were.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/bind/bind.h"

namespace ucp {

struct Reached {
  std::set<std::size_t> tensors;  // In CheckedSpec::tensors: those that gave a name.
  std::set<std::size_t> ties;     // In CheckedSpec::ties: those that gave a second name.

  void Add(const BoundSpec& bound);
  std::size_t size() const { return tensors.size() + ties.size(); }
};

// "`"y.weight"` (gpt.ucp:7)", in the spec's order.
std::vector<std::string> Unreached(const CheckedSpec& spec, const Reached& reached);

// Returns the whole numbers that a spec writes, which its branches and divisions turn on.
std::set<std::int64_t> NumbersOf(const CheckedSpec& spec);

}  // namespace ucp
