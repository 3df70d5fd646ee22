#include "compiler/formats/deepspeed/universal/module_tensors.h"

#include <map>

#include "compiler/support/error.h"

namespace ucp::universal {
namespace {

// Stage 3 leaves an empty tensor in the module where a frozen parameter is cut over the ranks.
llvm::Error CheckWhole(const std::string& root, const std::string& name, const ModelStates& states,
                       const TensorPlace& place) {
  auto frozen = states.frozen_shapes.find(name);
  if (frozen == states.frozen_shapes.end() || frozen->second == place.sizes) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "`{}`: the frozen parameter `{}` is not whole in `{}`; stage 3 cut it, and this version does not put it "
              "together again",
              root, name, states.path);
}

void AddWhole(SourceArchives& archives, Inventory& inventory, const std::string& name, const ModelStates& states,
              const TensorPlace& place) {
  const bool is_buffer = states.buffer_names.contains(name) || name.ends_with("_extra_state");
  Shard shard;
  shard.tensor = name;
  shard.kind = is_buffer ? TensorKind::kBuffer : TensorKind::kFrozen;
  shard.shape = place.sizes;
  shard.strides = place.strides;
  shard.base = place.offset;
  shard.states = archives.BuffersOf(place, kWeightState);
  inventory.storage.shards.push_back(std::move(shard));
}

// Nothing in the folder says how these tensors are cut, so only a copy that is known to be equal is taken as one.
llvm::Error CheckReplica(const Inventory& inventory, const std::string& name, const ModelStates& a,
                         const TensorPlace& a_place, const ModelStates& b, const TensorPlace& b_place) {
  const Record& a_record = inventory.storage.record(a_place.record);
  const Record& b_record = inventory.storage.record(b_place.record);
  const bool is_copy = a.buffer_names.contains(name) && a_place.sizes == b_place.sizes &&
                       a_place.offset == b_place.offset && a_place.strides == b_place.strides &&
                       a_record.bytes == b_record.bytes && a_record.crc32 == b_record.crc32;
  if (is_copy) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "`{}`: `{}` is in `{}` and in `{}`, and a universal folder does not say how it is cut over them",
              inventory.root, name, a.path, b.path);
}

}  // namespace

llvm::Error AddModuleTensors(SourceArchives& archives, const std::vector<ModelStates>& states,
                             const std::function<bool(const std::string&)>& is_trained, Inventory& inventory) {
  const std::map<std::string, std::string>& aliases = states.front().shared_params;
  std::map<std::string, std::pair<const ModelStates*, const TensorPlace*>> found;
  for (const ModelStates& rank : states) {
    for (const ModuleEntries* entries : {&rank.module, &rank.frozen_fragments}) {
      for (const auto& [name, place] : entries->tensors) {
        if (is_trained(name) || aliases.contains(name)) continue;
        UCP_RETURN_IF_ERROR(CheckWhole(inventory.root, name, rank, place));
        auto [entry, added] = found.try_emplace(name, &rank, &place);
        if (!added && entry->second.first != &rank) {
          UCP_RETURN_IF_ERROR(CheckReplica(inventory, name, *entry->second.first, *entry->second.second, rank, place));
        }
        if (added) AddWhole(archives, inventory, name, rank, place);
      }
    }
  }
  return llvm::Error::success();
}

}  // namespace ucp::universal
