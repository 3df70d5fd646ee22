// Where two values say different things: for entries that must be equal in several files.
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::pytorch {

struct ValueDifference {
  std::string keys;  // The keys that lead there, joined with dots: "param_groups.0.lr"; empty: the values themselves.
  std::string a;     // As Print() has it, cut where it is long; "missing" if there is nothing.
  std::string b;
};

enum class ListLengths {
  kMustAgree,
  kMayDiffer,  // Of lists of different lengths nothing is compared.
};

// Returns at most `most` of them, in the order of `a`. Mappings, lists and the attributes of objects of one class are
// compared part by part, all else as a whole. Linear, however often parts are shared.
std::vector<ValueDifference> DifferencesOf(const ValuePtr& a, const ValuePtr& b, ListLengths lengths, std::size_t most);

}  // namespace ucp::pytorch
