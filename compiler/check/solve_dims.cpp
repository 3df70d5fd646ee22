// Values spread like this: what is given (command line, metadata) comes first. Then, until nothing changes, definitions
// whose dims are known are computed and shapes are solved. When that stands still, one default is taken, the first in
// the order of declaration that can be, and the spreading goes on: a default comes after everything that knows better.
#include "compiler/check/solve_dims.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/evaluate.h"
#include "compiler/check/solve_shape.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

constexpr const char* kCommandLine = "the command line";

class DimSolver {
 public:
  DimSolver(const CheckedSpec& spec, const InventoryIndex& found, DiagnosticSink& sink)
      : spec_(spec),
        found_(found),
        sink_(sink),
        dims_(spec.dims.size()),
        wrong_(spec.dims.size(), false),
        defined_(spec.dims.size(), false),
        samples_(ChooseSamples(spec, found)),
        errors_before_(sink.error_count()) {}

  std::optional<std::vector<std::optional<DimValue>>> Run(const std::map<std::string, std::int64_t>& set) {
    TakeSet(set);
    for (std::size_t dim = 0; dim < dims_.size(); ++dim) TakeFact(dim);
    do {
      while (ComputeDefinitions() || SolveShapes()) {
      }
    } while (TakeOneDefault());
    ReportMissing();
    if (sink_.error_count() != errors_before_) return std::nullopt;
    return std::move(dims_);
  }

 private:
  Values values() const { return {spec_, dims_, found_.inventory().mesh}; }

  void TakeSet(const std::map<std::string, std::int64_t>& set) {
    std::vector<std::string> names;
    for (const DimDeclaration& dim : spec_.dims) names.push_back(dim.name);
    for (const auto& [name, value] : set) {
      auto dim = std::find(names.begin(), names.end(), name);
      if (dim == names.end()) {
        ReportUnknownSet(name, names);
      } else if (value < 0) {
        Report(DiagnosticKind::kNumberOutOfRange, Place::Elsewhere(kCommandLine),
               fmt::format("`{}` is {}, which is negative", name, value));
      } else {
        dims_[static_cast<std::size_t>(dim - names.begin())] = {value, Place::Elsewhere(kCommandLine),
                                                                ", given with `--set`"};
      }
    }
  }

  void ReportUnknownSet(const std::string& name, const std::vector<std::string>& names) {
    Diagnostic diagnostic{.kind = DiagnosticKind::kUnknownName,
                          .place = Place::Elsewhere(kCommandLine),
                          .message = fmt::format("`--set {0}` names no dim of {1}", name, spec_.source->path())};
    if (auto nearest = NearestWord(name, names)) diagnostic.hint = fmt::format("did you mean `{}`", *nearest);
    sink_.Report(std::move(diagnostic));
  }

  // The first path that exists counts, even if its value is of no use: nothing falls through silently.
  void TakeFact(std::size_t dim) {
    for (const DimDeclaration::Path& path : spec_.dims[dim].from) {
      auto fact = found_.inventory().facts.find(path.dotted);
      if (fact == found_.inventory().facts.end()) continue;
      const auto* number = std::get_if<std::int64_t>(&fact->second.value.value);
      if (!number || *number < 0) {
        wrong_[dim] = true;
        sink_.Report(
            {.kind = DiagnosticKind::kBadFact,
             .place = path.range,
             .message = number ? fmt::format("`{}` is {} in the checkpoint, which is negative", path.dotted, *number)
                               : fmt::format("`{}` is no whole number in the checkpoint", path.dotted),
             .notes = {{Place::Elsewhere(fact->second.where), "it was read here"}}});
        return;
      }
      Learn(dim, {*number, Place::Elsewhere(fact->second.where), fmt::format(", read from `{}`", path.dotted)});
      return;
    }
  }

  // A second source of a dim must agree with the first.
  void Learn(std::size_t dim, DimValue value) {
    if (wrong_[dim]) return;
    if (!dims_[dim]) {
      dims_[dim] = std::move(value);
      return;
    }
    if (dims_[dim]->value == value.value) return;
    wrong_[dim] = true;
    const std::string& name = spec_.dims[dim].name;
    std::vector<Note> notes;
    for (const DimValue& source : {*dims_[dim], value}) {
      notes.push_back({source.place, fmt::format("`{}` is {}{}", name, source.value, source.origin)});
    }
    if (spec_.dims[dim].definition) {
      for (Note& note : NotesOf(*spec_.dims[dim].definition, values())) notes.push_back(std::move(note));
    }
    sink_.Report(
        {.kind = DiagnosticKind::kDimDisagreement,
         .place = spec_.dims[dim].range,
         .message = fmt::format("two sources disagree: `{}` is {} and {}", name, dims_[dim]->value, value.value),
         .notes = std::move(notes)});
  }

  bool ComputeDefinitions() {
    bool changed = false;
    for (std::size_t dim = 0; dim < dims_.size(); ++dim) {
      const auto& definition = spec_.dims[dim].definition;
      if (!definition || defined_[dim] || !values().Knows(*definition)) continue;
      defined_[dim] = changed = true;
      auto value = Evaluate(*definition, values(), {}, sink_);
      if (!value) {
        wrong_[dim] = true;
        continue;
      }
      Learn(dim, {*value, definition->range, ", by its definition"});
    }
    return changed;
  }

  bool SolveShapes() {
    bool changed = false;
    for (const Sample& sample : samples_) {
      const TensorDeclaration& tensor = spec_.tensors[sample.declaration];
      const Shard& shard = *sample.shard;
      if (tensor.dims.size() != shard.shape.size()) continue;
      for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
        auto solved = SolveLength(tensor.dims[i], shard.shape[i], values());
        if (!solved || wrong_[solved->dim]) continue;
        dims_[solved->dim] = {
            solved->value, found_.PlaceOf(shard),
            fmt::format(", solved from the shape {} of `{}` at {}", ShapeText(shard), shard.tensor, WhereText(shard))};
        changed = true;
      }
    }
    return changed;
  }

  bool TakeOneDefault() {
    for (std::size_t dim = 0; dim < dims_.size(); ++dim) {
      const auto& otherwise = spec_.dims[dim].otherwise;
      if (dims_[dim] || wrong_[dim] || !otherwise || !values().Knows(*otherwise)) continue;
      auto value = Evaluate(*otherwise, values(), {}, sink_);
      if (value) {
        dims_[dim] = {*value, otherwise->range, ", its default"};
      } else {
        wrong_[dim] = true;
      }
      return true;
    }
    return false;
  }

  // Only what a name or a shape needs, and of that only what does not follow from another missing dim.
  void ReportMissing() {
    std::vector<bool> seen(dims_.size(), false);
    std::vector<std::size_t> open = NeededDims(spec_);
    auto unknown = std::find_if(open.begin(), open.end(), [&](std::size_t dim) { return !dims_[dim]; });
    std::optional<std::size_t> first = unknown == open.end() ? std::nullopt : std::optional(*unknown);
    while (!open.empty()) {
      std::size_t dim = open.back();
      open.pop_back();
      if (seen[dim] || dims_[dim] || wrong_[dim]) continue;
      seen[dim] = true;
      const DimDeclaration& declaration = spec_.dims[dim];
      const auto& follows = declaration.definition ? declaration.definition : declaration.otherwise;
      std::vector<std::size_t> needs = follows ? DimsOf(*follows) : std::vector<std::size_t>{};
      open.insert(open.end(), needs.begin(), needs.end());
      if (needs.empty()) ReportWithoutValue(declaration);
    }
    // Two defaults that need each other: neither is a root, and any of them may be given.
    if (first && sink_.error_count() == errors_before_) ReportWithoutValue(spec_.dims[*first]);
  }

  void ReportWithoutValue(const DimDeclaration& dim) {
    std::vector<Note> notes;
    for (const DimDeclaration::Path& path : dim.from) {
      notes.push_back({path.range, fmt::format("the checkpoint's metadata has no `{}`", path.dotted)});
    }
    sink_.Report({.kind = DiagnosticKind::kDimWithoutValue,
                  .place = dim.range,
                  .message = fmt::format("nothing says how large `{}` is, and no shape tells", dim.name),
                  .notes = std::move(notes),
                  .hint = fmt::format("give it with `--set {}=NUMBER`", dim.name)});
  }

  void Report(DiagnosticKind kind, Place place, std::string message) {
    sink_.Report({.kind = kind, .place = std::move(place), .message = std::move(message)});
  }

  const CheckedSpec& spec_;
  const InventoryIndex& found_;
  DiagnosticSink& sink_;
  std::vector<std::optional<DimValue>> dims_;
  std::vector<bool> wrong_;    // A mistake was reported: nothing more is said about it.
  std::vector<bool> defined_;  // Its definition has been computed.
  std::vector<Sample> samples_;
  std::size_t errors_before_;
};

}  // namespace

std::optional<std::vector<std::optional<DimValue>>> SolveDims(const CheckedSpec& spec, const InventoryIndex& found,
                                                              const std::map<std::string, std::int64_t>& set,
                                                              DiagnosticSink& sink) {
  return DimSolver(spec, found, sink).Run(set);
}

}  // namespace ucp
