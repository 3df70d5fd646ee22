// The dicts and lists that a state dict was before it was flattened.
#pragma once

#include <utility>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::dcp {

// A value, and the path below which it stood.
struct Leaf {
  std::vector<PathPart> path;  // Not empty.
  pytorch::ValuePtr value;
};

// Returns the entries of the dict that had these leaves. Numbers are places in lists where they ascend, in which None
// stands for missing entries, and keys of a dict otherwise; of two leaves at one path, or above one another, the later
// is left out.
std::vector<pytorch::Entry> Nest(std::vector<Leaf> leaves);

}  // namespace ucp::dcp
