// An optimizer that is stored as its own buffers are (`dp_reshardable`): of each stage and tensor-parallel rank one
// buffer in buckets, in which the states of its parameters stand one behind the other. Experts that other ranks have
// copies of than of the rest have buffers of their own. The files do not say what stands where.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/pytorch/values/value.h"

namespace ucp::megatron {

// Consecutive elements of a state of a tensor.
struct StoredRange {
  std::string state;
  const dcp::Chunk* stored = nullptr;  // Of a bucket: it holds them,
  std::int64_t skip = 0;               // behind this many others.
  const dcp::Chunk* part = nullptr;    // Of the tensor: they are from it,
  std::int64_t begin = 0;              // behind this many others.
  std::int64_t elements = 0;
  bool is_lost = false;  // The chunk is of weights of bfloat16: a master is they, and another state is zeros.
};

struct OwnBuffers {
  std::map<std::string, std::vector<StoredRange>> ranges;  // By tensor.
  std::string unread;                                      // Why they are not known, as a sentence; empty if they are.
};

using ValuesOfObjects = std::map<std::string, pytorch::ValuePtr>;

// `objects`: by their names, at least those of sizes. `keys` must outlive the result.
OwnBuffers FindRanges(const Keys& keys, const Arguments& arguments, const ValuesOfObjects& objects);

}  // namespace ucp::megatron
