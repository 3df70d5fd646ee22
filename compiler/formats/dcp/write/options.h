// The settings of `--to dcp`.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/formats/dcp/write/metadata_writer.h"
#include "compiler/formats/strategy.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/layout/dtype.h"

namespace ucp::dcp {

struct WriteOptions {
  std::optional<std::int64_t> fsdp;   // The ranks that shard each tensor by its rows.
  std::optional<std::int64_t> files;  // How many, of about equal size.
  std::optional<DType> dtype;         // Of the weights.
  bool weights_alone = false;
  TorchRelease release = TorchRelease::kSince24;
  // How many of a tensor's first dimensions are cut into single positions, by its name; null: of none.
  std::size_t (*single_dimensions)(std::string_view tensor) = nullptr;
};

StrategyRules WriteRules();

// Fails (kUsage) for settings that contradict each other.
llvm::Expected<WriteOptions> ReadOptions(const Strategy& strategy);

}  // namespace ucp::dcp
