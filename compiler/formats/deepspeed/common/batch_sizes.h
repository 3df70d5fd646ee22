// The batch sizes of a `ds_config`: micro-batch * steps of accumulation * data-parallel ranks is the global batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::deepspeed {

inline constexpr std::string_view kGlobalBatch = "train_batch_size";
inline constexpr std::string_view kMicroBatch = "train_micro_batch_size_per_gpu";
inline constexpr std::string_view kAccumulation = "gradient_accumulation_steps";

struct BatchSizes {
  std::int64_t global = 0;
  std::int64_t micro = 0;
};

// A number of the configuration that can be a batch size; nothing if it is not there, or is "auto".
std::optional<std::int64_t> BatchNumber(const pytorch::Value& config, std::string_view key);

// Of a configuration that was for `dp` data-parallel ranks, which gives the sizes that it leaves out. Nothing if they
// cannot be known.
std::optional<BatchSizes> BatchSizesOf(const pytorch::Value& config, std::int64_t dp);

// A sentence for the report, if neither the micro-batch nor another one makes up the global batch on `dp` ranks; empty
// otherwise.
std::string RemarkOnBatch(const BatchSizes& sizes, std::int64_t dp);

}  // namespace ucp::deepspeed
