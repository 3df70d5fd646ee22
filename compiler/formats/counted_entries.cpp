#include "compiler/formats/counted_entries.h"

#include <algorithm>
#include <cstdint>

#include "compiler/formats/identity.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp {

using pytorch::MakeInteger;
using pytorch::MakeNone;

std::vector<std::pair<std::string_view, pytorch::ValuePtr>> CountedEntries(const TrainingState& training) {
  constexpr double kMostSteps = 9007199254740992;  // 2^53: every whole number up to it is a double.
  const double step = OptimizerStep(training).value_or(0);
  const auto steps = step >= 0 && step <= kMostSteps ? static_cast<std::int64_t>(step) : 0;
  return {{"lr_scheduler", MakeNone()},      {"data_sampler", MakeNone()},         {"random_ltd", MakeNone()},
          {"skipped_steps", MakeInteger(0)}, {"global_steps", MakeInteger(steps)}, {"global_samples", MakeInteger(0)},
          {"dp_world_size", MakeInteger(1)}};
}

bool IsCountedEntry(const TrainingState& training, const pytorch::Entry& entry) {
  return std::ranges::any_of(CountedEntries(training), [&](const auto& counted) {
    return pytorch::AsText(*entry.key) == counted.first &&
           pytorch::Print(*entry.value) == pytorch::Print(*counted.second);
  });
}

}  // namespace ucp
