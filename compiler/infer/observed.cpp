#include "compiler/infer/observed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

llvm::Error CheckAxes(const Inventory& inventory) {
  for (const char* axis : {"ep", "etp"}) {
    if (inventory.mesh.Size(axis) == 1 || !inventory.expert_places.empty()) continue;  // Those are AutoEP's word.
    return Fail(ErrorCode::kUnsupported,
                "`{}` is spread over {} ranks of `{}`; a spec is drafted from pipeline and tensor parallelism only, so "
                "write the experts' part by hand (docs/language.md)",
                inventory.root, inventory.mesh.Size(axis), axis);
  }
  return llvm::Error::success();
}

using Shapes = std::map<std::string, std::vector<LocalShape>>;

bool IsOfPatterns(char c) { return c == '"' || c == '{' || c == '}' || c == '|' || c == '\r' || c == '\n'; }

llvm::Error CheckName(std::string_view name) {
  if (!name.empty() && std::ranges::none_of(name, IsOfPatterns)) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "tensor `{}` has a name that no pattern of a spec can say: one of \" {{ }} | or a line break is in it",
              name);
}

std::int64_t GrainOf(const Inventory& inventory) {
  auto fact = inventory.facts.find("args.make_vocab_size_divisible_by");
  if (fact == inventory.facts.end()) return 0;
  const auto* grain = std::get_if<std::int64_t>(&fact->second.value.value);
  return grain != nullptr && *grain > 0 && *grain < (1 << 20) ? *grain : 0;
}

// One shard of a tensor at each tensor-parallel rank.
using ShardsByRank = std::vector<std::pair<std::string_view, std::vector<const Shard*>>>;

// Sorted by name. Fails if a rank's shapes differ between stages.
llvm::Expected<ShardsByRank> FirstShards(const Inventory& inventory) {
  std::size_t tp = static_cast<std::size_t>(inventory.mesh.Size("tp"));
  std::unordered_map<std::string_view, std::vector<const Shard*>> shards;
  shards.reserve(inventory.storage.shards.size());
  for (const Shard& shard : inventory.storage.shards) {
    std::size_t rank = static_cast<std::size_t>(shard.coordinate.At("tp"));
    std::vector<const Shard*>& ranks = shards.try_emplace(shard.tensor, tp, nullptr).first->second;
    if (inventory.expert_places.contains(shard.tensor) || !shard.coordinate.at.contains("tp")) {
      if (ranks[0] == nullptr) ranks.assign(tp, &shard);  // Whole experts are on no place of tp.
      continue;
    }
    if (rank >= tp) continue;
    if (ranks[rank] == nullptr) {
      ranks[rank] = &shard;
    } else if (ranks[rank]->shape != shard.shape) {
      return Fail(ErrorCode::kBadData, "tensor `{}` is [{}] at {} and [{}] at {}", shard.tensor,
                  fmt::join(ranks[rank]->shape, ", "), ToString(ranks[rank]->coordinate), fmt::join(shard.shape, ", "),
                  ToString(shard.coordinate));
    }
  }
  ShardsByRank sorted;
  sorted.reserve(shards.size());
  for (auto& [name, ranks] : shards) sorted.emplace_back(name, std::move(ranks));
  std::ranges::sort(sorted, {}, &ShardsByRank::value_type::first);
  return sorted;
}

// The shape at each tensor-parallel rank, equal on all stages.
llvm::Expected<Shapes> ShapesByRank(const Inventory& inventory) {
  std::size_t tp = static_cast<std::size_t>(inventory.mesh.Size("tp"));
  UCP_ASSIGN_OR_RETURN(ShardsByRank sorted, FirstShards(inventory));
  Shapes shapes;
  for (const auto& [name, ranks] : sorted) {
    UCP_RETURN_IF_ERROR(CheckName(name));
    std::vector<LocalShape>& by_rank = shapes.try_emplace(shapes.end(), std::string(name))->second;
    for (std::size_t rank = 0; rank < tp; ++rank) {
      if (ranks[rank] == nullptr) {
        return Fail(ErrorCode::kBadData, "the checkpoint `{}` has no part of tensor `{}` at tp={}", inventory.root,
                    name, rank);
      }
      if (ranks[rank]->shape.size() != ranks[0]->shape.size()) {
        return Fail(ErrorCode::kBadData, "tensor `{}` has {} dimensions at tp=0 and {} at tp={}", name,
                    ranks[0]->shape.size(), ranks[rank]->shape.size(), rank);
      }
      by_rank.push_back(ranks[rank]->shape);
    }
  }
  return shapes;
}

llvm::Error CompareNames(const Shapes& here, const Inventory& inventory, const Shapes& there,
                         const Inventory& elsewhere) {
  auto lacks = [](const Shapes& a, const Shapes& b) -> const std::string* {
    for (const auto& [name, shapes] : a) {
      if (!b.contains(name)) return &name;
    }
    return nullptr;
  };
  const std::string* name = lacks(here, there);
  bool first_has = name != nullptr;
  if (!first_has) name = lacks(there, here);
  if (name == nullptr) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "tensor `{}` is in `{}` and not in `{}`: these are two models", *name,
              first_has ? inventory.root : elsewhere.root, first_has ? elsewhere.root : inventory.root);
}

// The tensors that are not second names of others. `others` are the shapes in the second checkpoint, if there is one.
void AddTensors(const Inventory& inventory, Shapes shapes, const Shapes& others, Observation& observation) {
  const std::vector<std::string>& first = inventory.first_stage_counts;
  for (auto& [name, by_rank] : shapes) {
    if (observation.aliases.contains(name)) continue;
    ObservedTensor tensor;
    tensor.name = name;
    tensor.by_rank = std::move(by_rank);
    if (auto there = others.find(name); there != others.end()) tensor.elsewhere = there->second;
    tensor.first_stage_counts = std::find(first.begin(), first.end(), name) != first.end();
    observation.tensors.push_back(std::move(tensor));
  }
}

void AddKindsAndStages(const Inventory& inventory, Observation& observation) {
  std::unordered_map<std::string_view, ObservedTensor*> tensors;
  tensors.reserve(observation.tensors.size());
  for (ObservedTensor& tensor : observation.tensors) tensors.emplace(tensor.name, &tensor);
  for (const Shard& shard : inventory.storage.shards) {
    auto found = tensors.find(shard.tensor);
    if (found == tensors.end()) continue;
    found->second->kind = shard.kind;
    found->second->stages.push_back(shard.coordinate.At("pp"));
  }
  for (ObservedTensor& tensor : observation.tensors) {
    std::sort(tensor.stages.begin(), tensor.stages.end());
    tensor.stages.erase(std::unique(tensor.stages.begin(), tensor.stages.end()), tensor.stages.end());
  }
}

}  // namespace

llvm::Expected<Observation> Observe(const Inventory& inventory, const Inventory* elsewhere) {
  UCP_RETURN_IF_ERROR(CheckAxes(inventory));
  UCP_ASSIGN_OR_RETURN(Shapes shapes, ShapesByRank(inventory));
  Shapes others;
  Observation observation;
  observation.tp = inventory.mesh.Size("tp");
  observation.pp = inventory.mesh.Size("pp");
  observation.aliases = inventory.aliases;
  observation.vocabulary_grain = GrainOf(inventory);
  for (const auto& [second, first] : observation.aliases) {
    UCP_RETURN_IF_ERROR(CheckName(second));
    UCP_RETURN_IF_ERROR(CheckName(first));
  }
  if (elsewhere != nullptr) {
    UCP_RETURN_IF_ERROR(CheckAxes(*elsewhere));
    UCP_ASSIGN_OR_RETURN(others, ShapesByRank(*elsewhere));
    UCP_RETURN_IF_ERROR(CompareNames(shapes, inventory, others, *elsewhere));
    observation.elsewhere_tp = elsewhere->mesh.Size("tp");
  }
  AddTensors(inventory, std::move(shapes), others, observation);
  AddKindsAndStages(inventory, observation);
  return observation;
}

}  // namespace ucp
