// The settings of `--to dcp`.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

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
  // By tensor: into how many equal parts each of its first dimensions is cut. Those of others are not.
  std::map<std::string, std::vector<std::int64_t>> equal_parts;
};

StrategyRules WriteRules();

// Fails (kUsage) for settings that contradict each other.
llvm::Expected<WriteOptions> ReadOptions(const Strategy& strategy);

}  // namespace ucp::dcp
