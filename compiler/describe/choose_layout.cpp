#include "compiler/describe/choose_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "compiler/layout/fact_value.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// Those that fit; if none does, the one with the fewest errors is `nearest`.
std::vector<std::size_t> LayoutsThatFit(const CheckedSpec& spec, const Inventory& inventory, const Settings& set,
                                        std::size_t& nearest) {
  std::vector<std::size_t> fitting;
  std::optional<std::size_t> fewest;
  for (std::size_t i = 0; i < spec.layouts.size(); ++i) {
    DiagnosticSink unseen;
    if (BindSpec(WithLayout(spec, i), inventory, set, unseen)) fitting.push_back(i);
    const std::size_t errors = unseen.error_count();
    if (!fewest || errors < *fewest) nearest = i;
    if (!fewest || errors < *fewest) fewest = errors;
  }
  return fitting;
}

llvm::Expected<std::size_t> ChooseLayout(const CheckedSpec& spec, const Inventory& inventory, Settings& set) {
  const auto given = set.find(kLayoutSetting);
  if (given != set.end()) {
    const auto* name = std::get_if<std::string>(&given->second.value);
    const std::optional<std::size_t> found = name == nullptr ? std::nullopt : FindLayout(spec, *name);
    if (!found) {
      return Fail(ErrorCode::kUsage, "{}: the model `{}` has the layouts {}",
                  OptionName(UserOption::kSets, fmt::format("{}={}", kLayoutSetting, TextOf(given->second))),
                  spec.model->name, NamesOfLayouts(spec));
    }
    set.erase(given);
    return *found;
  }
  if (inventory.storage.shards.empty()) return 0;  // Without a checkpoint.
  std::size_t nearest = 0;
  const std::vector<std::size_t> fitting = LayoutsThatFit(spec, inventory, set, nearest);
  if (fitting.size() <= 1) return fitting.empty() ? nearest : fitting.front();
  std::vector<std::string_view> names;
  for (const std::size_t i : fitting) names.push_back(spec.layouts[i].name);
  return Fail(ErrorCode::kUsage, "the layouts `{}` of the model `{}` all fit this checkpoint; choose one with {}",
              fmt::join(names, "`, `"), spec.model->name,
              OptionName(UserOption::kSets, fmt::format("{}={}", kLayoutSetting, names.front())));
}

}  // namespace

llvm::Expected<BoundSpec> BindLayoutOf(SpecSession& session, const Inventory& inventory, Settings set,
                                       std::vector<std::string>& remarks) {
  if (session.checked->model) {
    UCP_ASSIGN_OR_RETURN(const std::size_t layout, ChooseLayout(*session.checked, inventory, set));
    session.checked = WithLayout(*session.checked, layout);
  }
  std::optional<BoundSpec> bound = BindSpec(*session.checked, inventory, set, session.sink);
  if (!bound) return SpecErrors(session);
  if (session.checked->layouts.size() > 1 && !inventory.storage.shards.empty()) {
    remarks.push_back(fmt::format("the checkpoint has the layout `{}` of the model `{}`", session.checked->layout_name,
                                  session.checked->model->name));
  }
  return std::move(*bound);
}

}  // namespace ucp
