#include "compiler/formats/dcp/entries/engine_entries.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/formats/counted_entries.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::dcp {

std::set<std::string> TakeEngineEntries(TrainingState& training) {
  std::set<std::string> taken;
  std::vector<pytorch::Entry>& client = training.ranks.front().client;
  for (const auto& [key, otherwise] : CountedEntries(training)) {
    const auto is_of_key = [name = key](const pytorch::Entry& entry) { return pytorch::AsText(*entry.key) == name; };
    const auto found = std::ranges::find_if(client, is_of_key);
    if (found == client.end() && training.groups.empty()) continue;
    if (found == client.end()) {
      training.engine.push_back({pytorch::MakeText(std::string(key)), otherwise});
    } else {
      taken.emplace(key);
      training.engine.push_back(*found);
      client.erase(found);
    }
  }
  training.engine_origin = training.ranks.front().client_origin;
  return taken;
}

std::vector<std::string> DropReserved(TrainingState& training) {
  constexpr std::array<std::string_view, 20> kReserved = {"module",
                                                          "optimizer",
                                                          "param_shapes",
                                                          "buffer_names",
                                                          "frozen_param_shapes",
                                                          "shared_params",
                                                          "mp_world_size",
                                                          "ds_config",
                                                          "ds_version",
                                                          "frozen_param_fragments",
                                                          "dp_world_size",
                                                          "random_ltd",
                                                          "global_steps",
                                                          "data_sampler",
                                                          "checkpoint_parallel_dimensions",
                                                          "skipped_steps",
                                                          "global_samples",
                                                          "optimizer_state_dict",
                                                          "sparse_tensor_module_names",
                                                          "universal_checkpoint_info"};
  std::vector<std::string> dropped;
  std::erase_if(training.ranks.front().client, [&](const pytorch::Entry& entry) {
    const auto key = pytorch::AsText(*entry.key);
    const bool is_reserved = key && std::ranges::find(kReserved, *key) != kReserved.end();
    if (is_reserved) dropped.emplace_back(*key);
    return is_reserved;
  });
  return dropped;
}

}  // namespace ucp::dcp
