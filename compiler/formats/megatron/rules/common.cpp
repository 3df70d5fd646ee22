// One optimizer is a dict; several are a list of those, or a dict of them by number.
#include "compiler/formats/megatron/rules/common.h"

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/training_state.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using pytorch::Value;
using pytorch::ValuePtr;

void ReadOptimizer(const Value& optimizer, Common& common) {
  if (const ValuePtr inner = pytorch::Find(optimizer, "optimizer")) {
    AddGroups(*inner, common);
    const ValuePtr state = pytorch::Find(*inner, "state");
    if (state) common.common_step = pytorch::Find(*state, "common_step");
  }
  const ValuePtr sharding = pytorch::Find(optimizer, "param_state_sharding_type");
  const auto name = sharding ? pytorch::AsText(*sharding) : std::nullopt;
  if (name) common.sharding = *name;
  ValuePtr scaler = pytorch::Find(optimizer, "grad_scaler");
  if (scaler && FindEntry(common.optimizer, "grad_scaler") == nullptr) {
    common.optimizer.push_back({pytorch::MakeText("grad_scaler"), std::move(scaler)});
  }
}

void ReadOptimizers(const Value& value, Common& common) {
  const bool is_one = pytorch::Find(value, "optimizer") || pytorch::Find(value, "param_state_sharding_type");
  if (is_one) return ReadOptimizer(value, common);
  if (const auto* items = pytorch::Items(value)) {
    for (const ValuePtr& item : *items) ReadOptimizer(*item, common);
  } else if (const auto* entries = pytorch::Entries(value)) {
    for (const pytorch::Entry& entry : *entries) ReadOptimizer(*entry.value, common);
  }
}

}  // namespace

void AddGroups(const Value& optimizer, Common& common) {
  const ValuePtr groups = pytorch::Find(optimizer, "param_groups");
  if (groups == nullptr) return;
  if (const auto* items = pytorch::Items(*groups)) {
    common.groups.insert(common.groups.end(), items->begin(), items->end());
  } else if (const auto* entries = pytorch::Entries(*groups)) {  // Lists of which ranks had parts.
    for (const pytorch::Entry& entry : *entries) common.groups.push_back(entry.value);
  }
}

llvm::Expected<Common> ReadCommon(const Value& root, const std::string& where) {
  const auto* entries = pytorch::Entries(root);
  if (entries == nullptr) return Fail(ErrorCode::kBadData, "{} does not hold a dict", where);
  Common common;
  for (const pytorch::Entry& entry : *entries) {
    const auto key = pytorch::AsText(*entry.key);
    if (key == "optimizer") {
      common.has_optimizer = true;
      ReadOptimizers(*entry.value, common);
    } else {
      common.entries.push_back(entry);
    }
  }
  const ValuePtr content = FindEntry(common.entries, "content_metadata");
  const ValuePtr sharding = content ? pytorch::Find(*content, "distrib_optim_sharding_type") : nullptr;
  const auto name = sharding ? pytorch::AsText(*sharding) : std::nullopt;
  if (!name) return common;
  if (!common.sharding.empty() && common.sharding != *name) {
    return Fail(ErrorCode::kBadData,
                "{} says in `content_metadata` that the optimizer is stored as `{}`, and in `optimizer` as `{}`", where,
                *name, common.sharding);
  }
  common.sharding = *name;
  return common;
}

}  // namespace ucp::megatron
