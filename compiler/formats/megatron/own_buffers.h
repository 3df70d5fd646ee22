// An optimizer that is stored as its own buffers are (`dp_reshardable`): of each stage and tensor-parallel rank one
// buffer in buckets, in which the states of its parameters stand one behind the other. The files do not say where.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/formats/megatron/arguments.h"
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
};

struct OwnBuffers {
  std::map<std::string, std::vector<StoredRange>> ranges;  // By tensor.
  std::string unread;                                      // Why they are not known, as a sentence; empty if they are.
};

using ValuesOfObjects = std::map<std::string, pytorch::ValuePtr>;

// The object that a stage and tensor-parallel rank has, as "optimizer" and "per_bucket_numel".
std::string NameOfObject(std::int64_t group, std::string_view object);

// `objects`: by their names, at least those of sizes. `keys` must outlive the result.
OwnBuffers FindRanges(const Keys& keys, const Arguments& arguments, const ValuesOfObjects& objects);

}  // namespace ucp::megatron
