#include "compiler/formats/dcp/engine_entries.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "compiler/formats/identity.h"
#include "compiler/formats/pytorch/value_access.h"

namespace ucp::dcp {
namespace {

using pytorch::MakeInteger;
using pytorch::MakeNone;

}  // namespace

void TakeEngineEntries(TrainingState& training) {
  const auto steps = static_cast<std::int64_t>(OptimizerStep(training).value_or(0));
  const std::array<std::pair<std::string_view, pytorch::ValuePtr>, 7> wanted = {{{"lr_scheduler", MakeNone()},
                                                                                 {"data_sampler", MakeNone()},
                                                                                 {"random_ltd", MakeNone()},
                                                                                 {"skipped_steps", MakeInteger(0)},
                                                                                 {"global_steps", MakeInteger(steps)},
                                                                                 {"global_samples", MakeInteger(0)},
                                                                                 {"dp_world_size", MakeInteger(1)}}};
  std::vector<pytorch::Entry>& client = training.ranks.front().client;
  for (const auto& [key, otherwise] : wanted) {
    const auto is_of_key = [key = key](const pytorch::Entry& entry) { return pytorch::AsText(*entry.key) == key; };
    const auto found = std::ranges::find_if(client, is_of_key);
    if (found == client.end() && training.groups.empty()) continue;
    if (found == client.end()) {
      training.engine.push_back({pytorch::MakeText(std::string(key)), otherwise});
    } else {
      training.engine.push_back(*found);
      client.erase(found);
    }
  }
  training.engine_origin = training.ranks.front().client_origin;
}

}  // namespace ucp::dcp
