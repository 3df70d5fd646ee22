#include "compiler/formats/deepspeed/common/folding.h"

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using pytorch::Find;
using pytorch::Value;
using pytorch::ValuePtr;

constexpr std::int64_t kVersion = 1;

llvm::Expected<std::int64_t> Number(const Value& folding, std::string_view key, const std::string& where) {
  ValuePtr found = Find(folding, key);
  auto number = found ? pytorch::AsInteger(*found) : std::nullopt;
  if (number && *number >= 0) return *number;
  return Fail(ErrorCode::kBadData, "`folding` in `{}` has {} as `{}`, and not a number", where,
              found ? pytorch::Print(*found) : "nothing", key);
}

llvm::Error CheckServed(const Value& folding, const std::string& where) {
  UCP_ASSIGN_OR_RETURN(const std::int64_t version, Number(folding, "version", where));
  if (version != kVersion) {
    return Fail(ErrorCode::kUnsupported, "`folding` in `{}` is of version {}, and this program reads version {}", where,
                version, kVersion);
  }
  UCP_ASSIGN_OR_RETURN(const std::int64_t etp, Number(folding, "etp_size", where));
  if (etp == 1) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "`folding` in `{}` says that each expert is cut over {} ranks (`etp_size`), which this version does not "
              "read",
              where, etp);
}

// DeepSpeed's word for the kind of file, which follows from who shares what is in it.
std::string FamilyOf(const std::string& partition_group) {
  if (partition_group == "edp") return "routed_expert";
  return partition_group == "per_family" ? "zero_optimizer_state" : "dense";
}

}  // namespace

llvm::Expected<std::optional<Folding>> ReadFolding(const Value& root, const std::string& where) {
  ValuePtr value = Find(root, "folding");
  if (!value || value->is_none()) return std::nullopt;
  UCP_RETURN_IF_ERROR(CheckServed(*value, where));
  Folding folding;
  ValuePtr group = Find(*value, "zero_partition_group");
  folding.partition_group = std::string(group ? pytorch::AsText(*group).value_or("") : "");
  for (const auto& [key, field] : {std::pair("tp_size", &folding.tp_size), std::pair("tp_rank", &folding.tp_rank),
                                   std::pair("ep_size", &folding.ep_size), std::pair("ep_rank", &folding.ep_rank),
                                   std::pair("zero_partition_count", &folding.partition_count)}) {
    UCP_ASSIGN_OR_RETURN(*field, Number(*value, key, where));
  }
  UCP_ASSIGN_OR_RETURN(folding.partition_rank, Number(*value, "zero_partition_rank", where));
  return folding;
}

pytorch::ValuePtr ComposeFolding(const Folding& folding, const pytorch::ValuePtr& param_families) {
  const std::pair<const char*, std::int64_t> numbers[] = {{"version", kVersion},
                                                          {"tp_size", folding.tp_size},
                                                          {"tp_rank", folding.tp_rank},
                                                          {"ep_size", folding.ep_size},
                                                          {"ep_rank", folding.ep_rank},
                                                          {"etp_size", 1},
                                                          {"etp_rank", 0},
                                                          {"zero_partition_rank", folding.partition_rank.value_or(0)},
                                                          {"zero_partition_count", folding.partition_count}};
  const std::pair<const char*, std::string> texts[] = {{"zero_partition_group", folding.partition_group},
                                                       {"dispatch_strategy", "route_full_partition_dispatch"},
                                                       {"shared_expert_placement", "tp_sharded"},
                                                       {"family", FamilyOf(folding.partition_group)}};
  std::vector<pytorch::Entry> entries;
  for (const auto& [key, number] : numbers) entries.push_back({pytorch::MakeText(key), pytorch::MakeInteger(number)});
  for (const auto& [key, text] : texts) entries.push_back({pytorch::MakeText(key), pytorch::MakeText(text)});
  if (param_families) entries.push_back({pytorch::MakeText("param_families"), param_families});
  return pytorch::MakeDict(std::move(entries));
}

llvm::Error CheckFolding(const std::optional<Folding>& found, const std::string& where, const Folding& expected,
                         const std::string& layers) {
  if (!found && expected.tp_size == 1) return llvm::Error::success();
  if (!found) {
    return Fail(ErrorCode::kBadData,
                "`{}` has no entry `folding`, as files of {} tensor-parallel ranks that share out the experts of "
                "`ds_autoep_layers` in `{}` have; it is of another checkpoint",
                where, expected.tp_size, layers);
  }
  if (found->partition_group != expected.partition_group) {
    return Fail(ErrorCode::kBadData, "`folding` in `{}` has `{}` as `zero_partition_group`, and such files have `{}`",
                where, found->partition_group, expected.partition_group);
  }
  auto compare = [&](std::string_view key, std::int64_t said, std::int64_t known) -> llvm::Error {
    if (said == known) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`folding` in `{}` has {} as `{}`, and by the names of the files and `ds_autoep_layers` in `{}` it "
                "is {}",
                where, said, key, layers, known);
  };
  UCP_RETURN_IF_ERROR(compare("tp_size", found->tp_size, expected.tp_size));
  UCP_RETURN_IF_ERROR(compare("tp_rank", found->tp_rank, expected.tp_rank));
  UCP_RETURN_IF_ERROR(compare("ep_size", found->ep_size, expected.ep_size));
  UCP_RETURN_IF_ERROR(compare("ep_rank", found->ep_rank, expected.ep_rank));
  UCP_RETURN_IF_ERROR(compare("zero_partition_count", found->partition_count, expected.partition_count));
  if (!expected.partition_rank) return llvm::Error::success();
  return compare("zero_partition_rank", *found->partition_rank, *expected.partition_rank);
}

}  // namespace ucp
