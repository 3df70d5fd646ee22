// The statement on tensor parallelism in a parameter file of a universal folder. The loader of a target with several
// tensor-parallel ranks takes its part of the whole tensor by these keys and knows nothing else, so a key that is
// missing or wrong gives wrong weights without a word.
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/target.h"

namespace ucp::universal {

// How the loader cuts a tensor: the dimension `cat_dim` consists of `parts`, each of which is cut evenly over the
// ranks, and a rank holds its piece of each. No parts: the file says nothing to the loader.
struct CutRule {
  std::int64_t cat_dim = 0;
  std::vector<std::int64_t> parts;
  bool is_vocabulary = false;  // The loader pads the rows itself until they can be cut.
  bool operator==(const CutRule&) const = default;
};

// From the layout of the tensor. A tensor that nothing cuts, and one whose cut the loader has no words for (parts that
// are cut beside parts that are not), have no parts; the loader then compares sizes, and refuses the latter.
CutRule CutRuleOf(const LogicalTensor& tensor);

// Returns the entries that stand beside `param`: cat_dim, param_n_sub_params or sub_param_shape, vocab_tensor.
std::vector<pytorch::Entry> CutEntries(const LogicalTensor& tensor);

}  // namespace ucp::universal
