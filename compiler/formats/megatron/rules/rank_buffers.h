// The buffers in which the optimizers of a job keep the states of its parameters: which parameters those of each rank
// have, and in which order.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/dcp/entries/entry.h"
#include "compiler/formats/megatron/rules/arguments.h"

namespace ucp::megatron {

// The beginnings of keys: of the only optimizer; or of that of the rest, and of that of experts.
inline constexpr std::array<std::string_view, 3> kOptimizers = {"", "chained_0.", "chained_1."};

// The object that goes with a buffer, as "optimizer" and "per_bucket_numel".
std::string NameOfObject(std::string_view optimizer, std::int64_t buffer, std::string_view object);

std::int64_t ElementsIn(const dcp::Chunk& chunk);

struct BufferParameter {
  const dcp::Entry* tensor = nullptr;
  std::vector<const dcp::Chunk*> parts;  // One behind the other: a gate and an up half are two.
};

// The buffer of a rank of a stage, or of several that have the same parts of parameters.
struct RanksBuffer {
  std::string_view optimizer;  // Of kOptimizers.
  std::int64_t number = 0;
  std::int64_t stage = 0;
  std::int64_t copies = 1;                  // How many ranks share the work.
  std::vector<BufferParameter> parameters;  // In the order of the module.

  std::string Object(std::string_view name) const;
  std::string key() const;                     // "chained_1.optimizer.distributed.dp_group_idx_3"
  std::vector<std::int64_t> elements() const;  // Of each parameter.
};

// Calls `take` for each buffer until it returns false, stage after stage. Returns why the buffers are not known, as a
// sentence; empty if they are.
std::string ForEachBuffer(std::span<const dcp::Entry* const> tensors, const Arguments& arguments,
                          llvm::function_ref<bool(const RanksBuffer&)> take);

}  // namespace ucp::megatron
