// First by names alone: a name with its numbers blanked out (its skeleton) must be one that some pattern prints. That
// puts almost every spec aside. Each of the rest is bound to the checkpoint and lowered to its mesh, as `--spec` would
// do. It fits if that finds no error.
//
// Several may fit: families share names, and a spec of an uneven cut agrees with one of an even cut wherever the degree
// divides. So layouts are compared by what every coordinate holds, not by how it is written.
#include "compiler/catalogue/pick_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_set>

#include "compiler/catalogue/catalogue.h"
#include "compiler/layout/compare_layouts.h"
#include "compiler/layout/seen_by_specs.h"
#include "compiler/spec/variant.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

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

// A tensor that no pattern can have printed.
std::optional<std::string_view> Unmatched(const CheckedSpec& spec, const Inventory& inventory,
                                          const SourceNames& names) {
  const std::unordered_set<std::string> printed = SkeletonsOf(spec);
  for (const auto& [skeleton, tensor] : names.by_skeleton) {
    const bool is_second_name = inventory.aliases.contains(std::string(tensor));
    if (!is_second_name && !printed.contains(skeleton)) return tensor;
  }
  return std::nullopt;
}

std::string FirstError(const DiagnosticSink& sink) {
  for (const Diagnostic& diagnostic : sink.Sorted()) {
    if (diagnostic.severity() == Severity::kError) return diagnostic.message;
  }
  return "it does not fit";
}

Mesh CutOver(Mesh mesh, std::int64_t ranks) {
  for (Axis& axis : mesh.axes) {
    if (axis.name == "tp") axis.size = ranks;
  }
  return mesh;
}

// The spec on this checkpoint, or why not.
struct Attempt {
  std::optional<PickedSpec> fits;
  std::string reason;
  bool has_names = false;  // It has a pattern for each name.
};

struct Rejected {
  std::string name;
  std::string reason;
  bool has_names = false;
};

llvm::Expected<Attempt> Try(const std::string& name, const Inventory& inventory, const SourceNames& names,
                            const Settings& set, std::int64_t cut_over) {
  const std::string path = SpecOfCatalogue(name);
  UCP_ASSIGN_OR_RETURN(OpenedSpec session, OpenSpec(path));
  if (!session->checked) return Attempt{std::nullopt, FirstError(session->sink)};
  if (const auto unmatched = Unmatched(*session->checked, inventory, names)) {
    return Attempt{std::nullopt, fmt::format("no pattern matches the tensor `{}`", *unmatched)};
  }
  std::optional<BoundSpec> bound = BindSpec(*session->checked, inventory, set, session->sink);
  std::optional<Layout> layout;
  if (bound) layout = LowerToMesh(*bound, {.mesh = inventory.mesh, .stage_layers = {}}, session->sink);
  if (!layout) return Attempt{std::nullopt, FirstError(session->sink), true};
  std::optional<Layout> target = layout;
  if (cut_over > 1)
    target = LowerToMesh(*bound, {.mesh = CutOver(inventory.mesh, cut_over), .stage_layers = {}}, session->sink);
  if (!target) return Attempt{std::nullopt, FirstError(session->sink), true};
  return Attempt{
      PickedSpec{name, {}, "", std::move(session), std::move(*bound), std::move(*layout), std::move(*target)}, "",
      true};
}

// Families share names and shapes, and not the order of their rotary pairs. So the type in a `config.json` counts as
// well. Returns nothing if it does not say that the checkpoint is of another model.
std::string OtherType(const CheckedSpec& spec, const Inventory& inventory) {
  const auto fact = inventory.facts.find("config.model_type");
  const auto* type = fact == inventory.facts.end() ? nullptr : std::get_if<std::string>(&fact->second.value.value);
  if (type == nullptr || *type == spec.model->name) return "";
  return fmt::format("its layouts are those of the model type `{}`, and config.json says `{}`", spec.model->name,
                     *type);
}

// Why no layout of the model fits the checkpoint; of one that fits, nothing.
std::optional<Rejected> TryModel(const std::string& name, const CheckedSpec& spec, const Inventory& inventory,
                                 const SourceNames& names, const Settings& set) {
  Rejected rejected{name, "", false};
  for (std::size_t i = 0; i < spec.layouts.size(); ++i) {
    const CheckedSpec in_layout = WithLayout(spec, i);
    const auto unmatched = Unmatched(in_layout, inventory, names);
    std::string reason =
        unmatched ? fmt::format("no pattern matches the tensor `{}`", *unmatched) : OtherType(spec, inventory);
    DiagnosticSink sink;
    if (reason.empty() && BindSpec(in_layout, inventory, set, sink)) return std::nullopt;
    if (!rejected.reason.empty() && (unmatched || rejected.has_names)) continue;
    rejected.has_names = !unmatched;
    rejected.reason = reason.empty() ? FirstError(sink) : std::move(reason);
  }
  return rejected;
}

// "`llama`, `mistral` and 5 more: nothing says how large …; `gpt`: …; 24 others do not fit". Those
// that come nearest have patterns for all names; where there are some, the others are counted only.
std::string Reasons(const std::vector<Rejected>& rejected, const Inventory& inventory) {
  constexpr std::size_t kMostReasons = 3;
  constexpr std::size_t kMostNames = 4;
  std::vector<std::string> reasons;
  std::map<std::string, std::vector<std::string>> specs;
  const bool some_have_names = std::ranges::any_of(rejected, &Rejected::has_names);
  for (const Rejected& spec : rejected) {
    if (spec.has_names != some_have_names) continue;
    if (specs[spec.reason].empty()) reasons.push_back(spec.reason);
    specs[spec.reason].push_back(fmt::format("`{}`", spec.name));
  }
  std::vector<std::string> lines;
  std::size_t reported = 0;
  for (const std::string& reason : reasons) {
    if (lines.size() == kMostReasons) break;
    std::vector<std::string>& names = specs[reason];
    reported += names.size();
    const std::size_t more = names.size() - std::min(names.size(), kMostNames);
    if (more > 0) names.resize(kMostNames);
    lines.push_back(
        fmt::format("{}{}: {}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "", reason));
  }
  std::string text = fmt::format("{}", fmt::join(lines, "; "));
  if (reported < rejected.size()) text += fmt::format("; {} others do not fit", rejected.size() - reported);
  const bool has_config = std::ranges::any_of(inventory.facts, [](const auto& fact) {
    return fact.first.starts_with("config.") || fact.first.starts_with("args.");
  });
  if (some_have_names && !has_config)
    text += "; no config.json was found beside the checkpoint: name one with " + OptionName(UserOption::kConfig);
  return text;
}

std::string Why(const PickedSpec& picked, const std::vector<std::string>& same, const Inventory& inventory) {
  std::string others = same.empty() ? ", and no other does"
                                    : fmt::format("; so does `{}`, which means the same here", fmt::join(same, "`, `"));
  return fmt::format(
      "the spec `{}` of the catalogue fits{}: it has patterns for all {} tensors, and their shapes on "
      "{} tensor-parallel ranks are those that its cuts give",
      picked.name, others, picked.layout.tensors.size(), inventory.mesh.Size("tp"));
}

}  // namespace

llvm::Expected<PickedSpec> PickSpec(const std::vector<std::string>& names, const Inventory& described,
                                    const Settings& set, std::int64_t cut_over) {
  std::optional<Inventory> whole;
  const Inventory& inventory = SeenBySpecs(described, whole);
  SourceNames source_names(inventory);
  std::optional<PickedSpec> picked;
  std::vector<std::string> same;
  std::vector<Rejected> rejected;
  for (const std::string& name : names) {
    UCP_ASSIGN_OR_RETURN(Attempt attempt, Try(name, inventory, source_names, set, cut_over));
    if (!attempt.fits) {
      rejected.push_back({name, attempt.reason, attempt.has_names});
      continue;
    }
    if (!picked) {
      picked = std::move(attempt.fits);
      continue;
    }
    UCP_ASSIGN_OR_RETURN(std::optional<std::string> different, DifferentTensor(picked->target, attempt.fits->target));
    if (different) {
      return Fail(ErrorCode::kUsage,
                  "the specs `{}` and `{}` of the catalogue both fit, and do not mean the same: they differ in tensor "
                  "`{}`; say which one with {}",
                  picked->name, name, *different, OptionName(UserOption::kSpec));
    }
    same.push_back(name);
  }
  if (!picked) {
    return Fail(ErrorCode::kUsage, "{}", rejected.empty() ? "the catalogue is empty" : Reasons(rejected, inventory));
  }
  picked->why = Why(*picked, same, inventory);
  picked->same = std::move(same);
  return std::move(*picked);
}

llvm::Expected<std::string> PickModel(const Inventory& described, const Settings& set, const std::string& layout) {
  std::optional<Inventory> whole;
  const Inventory& inventory = SeenBySpecs(described, whole);
  const SourceNames source_names(inventory);
  std::string picked;
  std::vector<Rejected> rejected;
  std::vector<std::string> lacking;
  for (const std::string& name : ModelNames()) {
    UCP_ASSIGN_OR_RETURN(const OpenedSpec session, OpenSpec(SpecOfCatalogue(name)));
    if (!session->checked) continue;
    std::optional<Rejected> why = TryModel(name, *session->checked, inventory, source_names, set);
    if (why) {
      rejected.push_back(std::move(*why));
    } else if (!FindLayout(*session->checked, layout)) {
      lacking.push_back(fmt::format("the model `{}` of the catalogue fits, and has the layouts {}", name,
                                    NamesOfLayouts(*session->checked)));
    } else if (picked.empty()) {
      picked = name;
    } else {
      return Fail(ErrorCode::kUsage,
                  "the models `{}` and `{}` of the catalogue both fit, and have a layout `{}`; say which one with {}",
                  picked, name, layout, OptionName(UserOption::kSpec));
    }
  }
  if (!picked.empty()) return picked;
  if (lacking.empty()) {
    lacking.push_back(rejected.empty() ? "the catalogue has no models"
                                       : "no model of the catalogue fits: " + Reasons(rejected, inventory));
  }
  return Fail(ErrorCode::kUsage, "`layout={}` names a layout of a model, and {}; name a spec that declares one with {}",
              layout, fmt::join(lacking, "; "), OptionName(UserOption::kSpec));
}

}  // namespace ucp
