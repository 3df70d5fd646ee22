// First by names alone: a name with its numbers blanked out (its skeleton) must be one that some pattern prints. That
// puts almost every spec aside. What is left is bound to the checkpoint and lowered to its mesh, as `--spec` would do,
// and fits if there is no error.
//
// Several may fit: families share names, and a spec of an uneven cut agrees with one of an even cut wherever the degree
// divides. So layouts are compared by what every coordinate holds, not by how it is written.
#include "compiler/phases/pick_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string_view>
#include <unordered_set>

#include "compiler/check/variant.h"
#include "compiler/layout/compare_layouts.h"
#include "compiler/phases/catalogue.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// One name of the checkpoint for each skeleton, in order of appearance.
struct SourceNames {
  std::vector<std::pair<std::string, std::string_view>> by_skeleton;

  explicit SourceNames(const Inventory& inventory) {
    std::unordered_set<std::string> seen;
    for (const Shard& shard : inventory.storage.shards) {
      std::string skeleton = SkeletonOf(shard.tensor);
      if (seen.insert(skeleton).second) by_skeleton.emplace_back(std::move(skeleton), shard.tensor);
    }
  }
};

std::unordered_set<std::string> SkeletonsOf(const CheckedSpec& spec) {
  std::unordered_set<std::string> skeletons;
  auto add = [&](const Pattern& pattern) {
    for (Variant& variant : VariantsOf(pattern, *spec.source)) skeletons.insert(std::move(variant.skeleton));
  };
  for (const TensorDeclaration& tensor : spec.tensors) add(tensor.name);
  for (const TieDeclaration& tie : spec.ties) add(tie.second);
  for (const DropDeclaration& drop : spec.drops) add(drop.name);
  return skeletons;
}

std::string FirstError(const DiagnosticSink& sink) {
  for (const Diagnostic& diagnostic : sink.Sorted()) {
    if (diagnostic.severity() == Severity::kError) return diagnostic.message;
  }
  return "it does not fit";
}

// The spec on this checkpoint, or why not.
struct Attempt {
  std::optional<PickedSpec> fits;
  std::string reason;
};

llvm::Expected<Attempt> Try(const std::string& name, const Inventory& inventory, const SourceNames& names,
                            const Settings& set) {
  UCP_ASSIGN_OR_RETURN(std::string path, FindSpec(name));
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<SpecSession> session, OpenSpec(path));
  if (!session->checked) return Attempt{std::nullopt, FirstError(session->sink)};
  std::unordered_set<std::string> printed = SkeletonsOf(*session->checked);
  for (const auto& [skeleton, tensor] : names.by_skeleton) {
    bool second_name = inventory.aliases.contains(std::string(tensor));
    if (second_name || printed.contains(skeleton)) continue;
    return Attempt{std::nullopt, fmt::format("no pattern matches the tensor `{}`", tensor)};
  }
  std::optional<BoundSpec> bound = BindSpec(*session->checked, inventory, set, session->sink);
  std::optional<Layout> layout;
  if (bound) layout = LowerToMesh(*bound, {.mesh = inventory.mesh, .stage_layers = {}}, session->sink);
  if (!layout) return Attempt{std::nullopt, FirstError(session->sink)};
  return Attempt{PickedSpec{name, "", std::move(session), std::move(*bound), std::move(*layout)}, ""};
}

// "`llama`, `mistral` and 3 more: no pattern matches …; `gpt`: …", in the order of the first spec of each reason.
std::string Reasons(const std::vector<std::pair<std::string, std::string>>& rejected) {
  std::vector<std::string> reasons;
  std::map<std::string, std::vector<std::string>> specs;
  for (const auto& [name, reason] : rejected) {
    if (specs[reason].empty()) reasons.push_back(reason);
    specs[reason].push_back(fmt::format("`{}`", name));
  }
  std::vector<std::string> lines;
  lines.reserve(reasons.size());
  for (const std::string& reason : reasons)
    lines.push_back(fmt::format("{}: {}", fmt::join(specs[reason], ", "), reason));
  return fmt::format("{}", fmt::join(lines, "; "));
}

std::string Why(const PickedSpec& picked, const std::vector<std::string>& same, const Inventory& inventory) {
  std::string others = same.empty() ? ", and no other does"
                                    : fmt::format("; so does {}, which means the same here", fmt::join(same, ", "));
  return fmt::format(
      "the spec `{}` of the catalogue fits{}: it has patterns for all {} tensors, and their shapes on "
      "{} tensor-parallel ranks are those that its cuts give",
      picked.name, others, picked.layout.tensors.size(), inventory.mesh.Size("tp"));
}

}  // namespace

llvm::Expected<PickedSpec> PickSpec(const std::vector<std::string>& names, const Inventory& inventory,
                                    const Settings& set) {
  SourceNames source_names(inventory);
  std::optional<PickedSpec> picked;
  std::vector<std::string> same;
  std::vector<std::pair<std::string, std::string>> rejected;
  for (const std::string& name : names) {
    UCP_ASSIGN_OR_RETURN(Attempt attempt, Try(name, inventory, source_names, set));
    if (!attempt.fits) {
      rejected.emplace_back(name, attempt.reason);
      continue;
    }
    if (!picked) {
      picked = std::move(attempt.fits);
      continue;
    }
    UCP_ASSIGN_OR_RETURN(std::optional<std::string> different, DifferentTensor(picked->layout, attempt.fits->layout));
    if (different) {
      return Fail(ErrorCode::kUsage,
                  "the specs `{}` and `{}` of the catalogue both fit, and do not mean the same: they differ in tensor "
                  "`{}`; say which one with --spec",
                  picked->name, name, *different);
    }
    same.push_back(fmt::format("`{}`", name));
  }
  if (!picked) {
    return Fail(ErrorCode::kUsage, "{}", rejected.empty() ? "the catalogue is empty" : Reasons(rejected));
  }
  picked->why = Why(*picked, same, inventory);
  return std::move(*picked);
}

}  // namespace ucp
