#include "compiler/bind/solve/known_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "compiler/layout/fact_value.h"
#include "compiler/support/spelling.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

constexpr const char* kCommandLine = "the command line";
std::string SetOrigin() { return fmt::format(", given with `{}`", OptionName(UserOption::kSets)); }

template <typename Declaration>
std::optional<std::size_t> Find(const std::vector<Declaration>& declarations, const std::string& name) {
  for (std::size_t i = 0; i < declarations.size(); ++i) {
    if (declarations[i].name == name) return i;
  }
  return std::nullopt;
}

// Of a value that is not a size: JSON's large integers arrive as floating-point numbers.
const char* WhyNoSize(const FactValue& value) {
  const auto* real = std::get_if<double>(&value.value);
  if (std::holds_alternative<std::int64_t>(value.value)) return "which is negative";
  return real != nullptr && std::fabs(*real) >= 0x1p63 ? "which does not fit in 63 bits"
                                                       : "which is not a whole number";
}

}  // namespace

KnownValues::KnownValues(const CheckedSpec& spec, const InventoryIndex& found, const Settings& set,
                         DiagnosticSink& sink)
    : spec_(spec),
      found_(found),
      set_(set),
      header_(found, set),
      sink_(sink),
      dim_progress_(spec.dims.size()),
      fact_progress_(spec.facts.size()) {
  solved_.dims.resize(spec.dims.size());
  solved_.facts.resize(spec.facts.size());
}

void KnownValues::TakeSettings() {
  for (const auto& [name, value] : set_) TakeSetting(name, value);
}

void KnownValues::TakeSetting(const std::string& name, const FactValue& value) {
  if (name.starts_with("has ")) return TakeHas(name, value);
  if (auto fact = Find(spec_.facts, name)) {
    solved_.facts[*fact] = BoundFact{value, Place::Elsewhere(kCommandLine), SetOrigin()};
    return;
  }
  auto dim = Find(spec_.dims, name);
  if (!dim) return RefuseUnknownSetting(name);
  const auto* number = std::get_if<std::int64_t>(&value.value);
  if (!number) {
    return RefuseSetting(DiagnosticKind::kTypeMismatch,
                         fmt::format("`{}` is a dim, and `{}` gives it {}, {}", name, OptionName(UserOption::kSets),
                                     KindOf(value), TextOf(value)));
  }
  if (*number < 0) {
    return RefuseSetting(DiagnosticKind::kNumberOutOfRange,
                         fmt::format("`{}` is {}, which is negative", name, *number));
  }
  solved_.dims[*dim] = DimValue{*number, Place::Elsewhere(kCommandLine), SetOrigin()};
}

// `has "name"` stands for a header, and must not contradict one.
void KnownValues::TakeHas(const std::string& name, const FactValue& value) {
  if (!std::holds_alternative<bool>(value.value)) {
    return RefuseSetting(
        DiagnosticKind::kTypeMismatch,
        fmt::format("`{}` takes true or false, and not {}", OptionName(UserOption::kSets, name), TextOf(value)));
  }
  if (header_.exists()) {
    return RefuseSetting(
        DiagnosticKind::kUnknownName,
        fmt::format("`{}` is for a spec without a checkpoint: here the checkpoint's header says which tensors it has",
                    OptionName(UserOption::kSets, name)));
  }
}

void KnownValues::RefuseSetting(DiagnosticKind kind, std::string message, std::string hint) {
  sink_.Report(
      {.kind = kind, .place = Place::Elsewhere(kCommandLine), .message = std::move(message), .hint = std::move(hint)});
}

void KnownValues::RefuseUnknownSetting(const std::string& name) {
  std::vector<std::string> names;
  for (const DimDeclaration& dim : spec_.dims) names.push_back(dim.name);
  for (const FactDeclaration& fact : spec_.facts) names.push_back(fact.name);
  auto nearest = NearestWord(name, names);
  std::string known = names.empty() ? "it has none" : fmt::format("it has {}", fmt::join(names, ", "));
  RefuseSetting(
      DiagnosticKind::kUnknownName,
      fmt::format("`{}` names no dim or fact of {}", OptionName(UserOption::kSets, name), spec_.source->path()),
      nearest ? fmt::format("did you mean `{}`?", *nearest) : known);
}

void KnownValues::ReadDim(std::size_t dim) {
  dim_progress_[dim].heard = true;
  for (const MetadataPath& path : spec_.dims[dim].from) {
    auto fact = found_.inventory().facts.find(path.dotted);
    if (fact == found_.inventory().facts.end()) continue;
    if (!fact->second.disputed.empty()) {
      if (solved_.dims[dim]) return;  // Given with `--set`.
      dim_progress_[dim].wrong = true;
      return ReportDispute(path, fact->second);
    }
    const auto* number = std::get_if<std::int64_t>(&fact->second.value.value);
    if (number && *number >= 0) {
      Learn(dim, DimValue{*number, Place::Elsewhere(fact->second.where), fmt::format(", read from `{}`", path.dotted)});
      return;
    }
    dim_progress_[dim].wrong = true;
    sink_.Report({.kind = DiagnosticKind::kBadFact,
                  .place = path.range,
                  .message = fmt::format("`{}` is {} in `{}`, {}", path.dotted, TextOf(fact->second.value),
                                         fact->second.where, WhyNoSize(fact->second.value))});
    return;
  }
}

void KnownValues::ReadFact(std::size_t fact) {
  fact_progress_[fact].heard = true;
  for (const MetadataPath& path : spec_.facts[fact].from) {
    auto found = found_.inventory().facts.find(path.dotted);
    if (found == found_.inventory().facts.end()) continue;
    if (!found->second.disputed.empty()) {
      if (solved_.facts[fact]) return;
      fact_progress_[fact].wrong = true;
      return ReportDispute(path, found->second);
    }
    Learn(fact, BoundFact{found->second.value, Place::Elsewhere(found->second.where),
                          fmt::format(", read from `{}`", path.dotted)});
    return;
  }
}

void KnownValues::ReportDispute(const MetadataPath& path, const Fact& fact) {
  sink_.Report({.kind = DiagnosticKind::kBadFact,
                .place = path.range,
                .message = fmt::format("`{}` is {}", path.dotted, fact.disputed),
                .hint = fmt::format("say with `{}` which value counts", OptionName(UserOption::kSets))});
}

void KnownValues::Learn(std::size_t dim, DimValue value) {
  if (dim_progress_[dim].wrong) return;
  std::optional<DimValue>& known = solved_.dims[dim];
  if (!known) {
    known = std::move(value);
    return;
  }
  known->assumed = known->assumed && value.assumed;
  if (known->value == value.value) return;
  dim_progress_[dim].wrong = true;
  const DimDeclaration& declaration = spec_.dims[dim];
  std::vector<Note> notes;
  for (const DimValue& source : {*known, value}) {
    notes.push_back({source.place, fmt::format("`{}` is {}{}", declaration.name, source.value, source.origin)});
  }
  if (declaration.definition) {
    for (Note& note : NotesOf(*declaration.definition, values())) notes.push_back(std::move(note));
  }
  sink_.Report(
      {.kind = DiagnosticKind::kDimDisagreement,
       .place = declaration.range,
       .message = fmt::format("two sources disagree: `{}` is {} and {}", declaration.name, known->value, value.value),
       .notes = std::move(notes)});
}

void KnownValues::Learn(std::size_t fact, BoundFact value) {
  if (fact_progress_[fact].wrong) return;
  std::optional<BoundFact>& known = solved_.facts[fact];
  if (!known) {
    known = std::move(value);
    return;
  }
  known->assumed = known->assumed && value.assumed;
  if (known->value == value.value) return;
  fact_progress_[fact].wrong = true;
  const FactDeclaration& declaration = spec_.facts[fact];
  std::vector<Note> notes;
  for (const BoundFact& source : {*known, value}) {
    notes.push_back({source.place, fmt::format("`{}` is {}{}", declaration.name, TextOf(source.value), source.origin)});
  }
  if (declaration.definition) {
    for (Note& note : NotesOf(ReferencesOf(*declaration.definition), values())) notes.push_back(std::move(note));
  }
  sink_.Report({.kind = DiagnosticKind::kFactDisagreement,
                .place = declaration.range,
                .message = fmt::format("two sources disagree: `{}` is {} and {}", declaration.name,
                                       TextOf(known->value), TextOf(value.value)),
                .notes = std::move(notes)});
}

}  // namespace ucp
