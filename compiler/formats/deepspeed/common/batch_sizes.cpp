#include "compiler/formats/deepspeed/common/batch_sizes.h"

#include <fmt/format.h>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/units.h"

namespace ucp::deepspeed {

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 20;  // Three of them do not overflow when they are multiplied.

}  // namespace

std::optional<std::int64_t> BatchNumber(const pytorch::Value& config, std::string_view key) {
  const pytorch::ValuePtr value = pytorch::Find(config, key);
  const auto number = value ? pytorch::AsInteger(*value) : std::nullopt;
  return number && *number > 0 && *number < kMost ? number : std::nullopt;
}

std::optional<BatchSizes> BatchSizesOf(const pytorch::Value& config, std::int64_t dp) {
  if (dp <= 0 || dp >= kMost) return std::nullopt;
  std::optional<std::int64_t> micro = BatchNumber(config, kMicroBatch), global = BatchNumber(config, kGlobalBatch),
                              accumulation = BatchNumber(config, kAccumulation);
  if (!accumulation && !(micro && global)) accumulation = 1;
  if (!global && micro && accumulation) global = *micro * *accumulation * dp;
  if (!micro && global && accumulation && *global % (*accumulation * dp) == 0) micro = *global / (*accumulation * dp);
  if (!global || !micro) return std::nullopt;
  return BatchSizes{*global, *micro};
}

std::string RemarkOnBatch(const BatchSizes& sizes, std::int64_t dp) {
  if (sizes.global % dp == 0) return "";
  return fmt::format(
      "the global batch of {} samples does not divide over {}: the job's configuration has to choose another",
      sizes.global, Counted(static_cast<std::uint64_t>(dp), "data-parallel rank"));
}

}  // namespace ucp::deepspeed
