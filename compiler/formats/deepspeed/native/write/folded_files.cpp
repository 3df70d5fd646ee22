#include "compiler/formats/deepspeed/native/write/folded_files.h"

#include <algorithm>
#include <string_view>

#include "compiler/formats/deepspeed/common/folding.h"
#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeText;

constexpr std::string_view kExpert = "routed_expert";

// DeepSpeed goes by the names.
std::string_view FamilyOf(std::string_view name) {
  auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has(".experts.")) return kExpert;
  if (has(".router.")) return "router_gate_replicated";
  return has(".shared_experts") ? "shared_expert" : "dense";
}

std::int64_t PlaceAmong(const std::vector<std::int64_t>& ranks, std::int64_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
}

void Add(const WriteOptions& options, const Folding& folding, const pytorch::ValuePtr& families,
         std::vector<Entry>& entries) {
  Folding whole = folding;
  whole.tp_size = options.tp;
  whole.ep_size = options.ep;
  entries.push_back({MakeText("folding"), ComposeFolding(whole, families)});
}

Folding DenseOf(const WriteOptions& options, const ExpertsToWrite& experts, RankInFiles place,
                const std::string& partition_group) {
  Folding folding;
  folding.tp_rank = place.tensor_rank;
  folding.ep_rank = experts.ExpertRankOf(experts.NumberOf(place.tensor_rank, place.partition));
  folding.partition_group = partition_group;
  folding.partition_count = options.dp;
  folding.partition_rank = place.partition;
  return folding;
}

}  // namespace

void AddFoldingOfModel(const WriteOptions& options, const ExpertsToWrite& experts, RankInFiles place,
                       const std::vector<std::string>& names, std::vector<Entry>& entries) {
  if (!experts.is_folded()) return;
  std::vector<Entry> families;
  for (const std::string& name : names) {
    families.push_back({MakeText(name), MakeText(std::string(FamilyOf(name)))});
  }
  Add(options, DenseOf(options, experts, place, "dense_dp"), MakeDict(std::move(families)), entries);
}

void AddFoldingOfOptimizer(const WriteOptions& options, const ExpertsToWrite& experts, RankInFiles place,
                           const std::vector<FlatGroupToWrite>& groups, std::vector<Entry>& entries) {
  if (!experts.is_folded()) return;
  const Folding folding = DenseOf(options, experts, place, "per_family");
  if (options.stage == 3) return Add(options, folding, nullptr, entries);  // `ds_zero_partition_groups` says it.
  std::vector<Entry> families;
  for (const FlatGroupToWrite& group : groups) {
    const std::int64_t rank = group.of_experts ? experts.NumberOf(place.tensor_rank, place.partition) : place.partition;
    for (const PlacedParameter& parameter : group.parameters) {
      const std::string_view family = FamilyOf(parameter.name);
      families.push_back(
          {MakeText(parameter.name),
           MakeDict({{MakeText("family"), MakeText(std::string(family))},
                     {MakeText("zero_partition_group"), MakeText(family == kExpert ? "edp" : "dense_dp")},
                     {MakeText("zero_partition_rank"), MakeInteger(PlaceAmong(group.ranks, rank))},
                     {MakeText("zero_partition_count"), MakeInteger(std::ssize(group.ranks))}})});
    }
  }
  Add(options, folding, MakeDict(std::move(families)), entries);
}

void AddFoldingOfExperts(const WriteOptions& options, const ExpertsToWrite& experts, std::int64_t tensor_rank,
                         std::int64_t expert_rank, std::vector<Entry>& entries) {
  if (!experts.is_folded()) return;
  const std::vector<std::int64_t> ranks = experts.RanksOf(expert_rank);
  // Several ranks may save the same file, each with its own number, in any order; here it is the first one's.
  const auto saving = std::find_if(ranks.begin(), ranks.end(), [&](std::int64_t rank) {
    return PlaceOfRank(rank, experts.tensor_ranks()).tensor_rank == tensor_rank;
  });
  Folding folding;
  folding.tp_rank = tensor_rank;
  folding.ep_rank = expert_rank;
  folding.partition_group = "edp";
  folding.partition_count = std::ssize(ranks);
  folding.partition_rank = saving - ranks.begin();
  Add(options, folding, nullptr, entries);
}

}  // namespace ucp::deepspeed
