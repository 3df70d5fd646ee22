// A model is a set of elements, as parts with named factors; a layout of it is a bijection between its places and these
// elements. As far as that can be seen without values: every tensor names each factor of its parts once, and every part
// is stored, once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "compiler/check/declarations.h"
#include "compiler/spec/part_terms.h"
#include "compiler/spec/variant.h"

namespace ucp {
namespace {

class ModelChecker {
 public:
  ModelChecker(const Scope& scope, CheckedSpec& spec, DiagnosticSink& sink) : scope_(scope), spec_(spec), sink_(sink) {}

  void Run(const ast::Model& node) {
    spec_.model = ModelDeclaration{node.name.text, node.name.range, {}};
    for (const ast::Part& part : node.parts) {
      if (CheckName(part.name)) Add(part);
    }
    CheckLabels();
  }

  void ReportSecond(const ast::Model& node) {
    Report(DiagnosticKind::kModelMismatch, node.name.range, "a spec has one model, of which all its layouts are",
           spec_.model->range, "the first one");
  }

 private:
  bool CheckName(const ast::Identifier& name) {
    if (const auto same = FindPart(spec_, name.text)) {
      Report(DiagnosticKind::kDuplicateName, name.range, fmt::format("part `{}` is declared twice", name.text),
             spec_.model->parts[*same].range, "the first declaration");
      return false;
    }
    return true;
  }

  void Add(const ast::Part& node) {
    PartDeclaration part{node.name.text, node.name.range, {}};
    for (const ast::Expr& expr : node.shape.dimensions) {
      auto dim = BuildFormula(expr, Role::kLength, scope_, {}, sink_);
      if (dim && HasStructure(*dim)) {
        Report(DiagnosticKind::kBadExpression, dim->range,
               "a part has all its elements, and only layouts cut and pad them", node.name.range, "this part");
      }
      if (dim) part.dims.push_back(std::move(*dim));
    }
    spec_.model->parts.push_back(std::move(part));
  }

  // A label in a part is a factor's own name. In a layout it would read as a part.
  void CheckLabels() {
    for (const PartDeclaration& part : spec_.model->parts) {
      for (const Formula& dim : part.dims) CheckLabels(dim);
    }
  }

  void CheckLabels(const Formula& formula) {
    if (const auto same = FindPart(spec_, formula.label)) {
      Report(DiagnosticKind::kDuplicateName, formula.label_range,
             fmt::format("`{}` names a factor here, and a part of the model", formula.label),
             spec_.model->parts[*same].range, "the part");
    }
    for (const Formula& operand : formula.operands) CheckLabels(operand);
  }

  void Report(DiagnosticKind kind, SourceRange range, std::string message, SourceRange other, std::string note) {
    sink_.Report({.kind = kind, .place = range, .message = std::move(message), .notes = {{other, std::move(note)}}});
  }

  const Scope& scope_;
  CheckedSpec& spec_;
  DiagnosticSink& sink_;
};

bool IsCounted(const Formula& formula, const CheckedSpec& spec, const std::vector<std::string>& counted) {
  const std::string& name =
      !formula.label.empty() || formula.kind != Formula::Kind::kDim ? formula.label : spec.dims[formula.index].name;
  return !name.empty() && std::ranges::find(counted, name) != counted.end();
}

// Lengths do not matter where only names are asked for.
std::optional<std::int64_t> AnyLength(const Formula&) { return 1; }

class PartsChecker {
 public:
  PartsChecker(const CheckedSpec& spec, DiagnosticSink& sink)
      : spec_(spec), sink_(sink), terms_(spec), factors_(spec.model->parts.size()), stored_(factors_.size()) {}

  void Run() {
    for (std::size_t p = 0; p < factors_.size(); ++p) ReadPart(p);
    if (!sound_) return;
    for (const TensorDeclaration& tensor : spec_.tensors) Check(tensor);
    if (!sound_) return;
    for (std::size_t p = 0; p < stored_.size(); ++p) CheckIsStored(p);
  }

 private:
  const PartDeclaration& part(std::size_t p) const { return spec_.model->parts[p]; }

  // "q [layers, heads * head, hidden]"
  std::string TextOf(std::size_t p) const {
    std::vector<std::string_view> dims;
    for (const Formula& dim : part(p).dims) {
      dims.push_back(spec_.TextOf(dim.label.empty() ? dim.range : Cover(dim.label_range, dim.range)));
    }
    return fmt::format("{} [{}]", part(p).name, fmt::join(dims, ", "));
  }

  void ReadPart(std::size_t p) {
    const bool is_first_layout = spec_.layout_name == spec_.layouts.front().name;  // The others have the same parts.
    const PartTerms::Terms terms = terms_.Of(part(p), AnyLength);
    if (const auto* problem = std::get_if<TermProblem>(&terms)) {
      sound_ = false;
      return is_first_layout ? Report(*problem) : void();
    }
    for (const TermFactor& factor : std::get<std::vector<PartTerm>>(terms).front().factors) {
      const bool is_second = std::ranges::find(factors_[p], factor.name) != factors_[p].end();
      if (is_second) sound_ = false;
      if (is_second && is_first_layout) {
        sink_.Report({.kind = DiagnosticKind::kPartFactors,
                      .place = factor.range,
                      .message = fmt::format("`{}` has two factors of the name `{}`, and no layout could tell which "
                                             "is which",
                                             part(p).name, factor.name),
                      .hint = fmt::format("give them names: [outputs: {0}, inputs: {0}]", factor.name)});
      }
      factors_[p].push_back(factor.name);
    }
  }

  void Check(const TensorDeclaration& tensor) {
    const PartTerms::Terms terms = terms_.Of(tensor, AnyLength);
    if (const auto* problem = std::get_if<TermProblem>(&terms)) return Report(*problem);
    for (const PartTerm& term : std::get<std::vector<PartTerm>>(terms)) {
      const std::size_t p = *FindPart(spec_, term.part);
      if (CheckFactors(tensor, term, p)) CheckIsFirst(tensor, term, p);
    }
  }

  bool CheckFactors(const TensorDeclaration& tensor, const PartTerm& term, std::size_t p) {
    std::map<std::string, int> named;
    for (const TermFactor& factor : term.factors) ++named[factor.name];
    for (const Counter& counter : tensor.name.counters) {
      const auto counted = terms_.FactorsOf(counter, AnyLength);
      if (!counted) return RefuseCounter(counter, p);
      for (const TermFactor& factor : *counted) ++named[factor.name];
    }
    std::vector<std::string> wrong;
    for (const auto& [name, times] : named) {
      if (std::ranges::find(factors_[p], name) == factors_[p].end()) {
        wrong.push_back(fmt::format("`{}`, which is not a factor of it", name));
      } else if (times > 1) {
        wrong.push_back(fmt::format("`{}` {} times", name, times));
      }
    }
    for (const std::string& name : factors_[p]) {
      if (!named.contains(name)) wrong.push_back(fmt::format("`{}` not at all", name));
    }
    if (wrong.empty()) return true;
    sound_ = false;
    sink_.Report({.kind = DiagnosticKind::kPartFactors,
                  .place = term.range,
                  .message = fmt::format("{} does not name each factor of `{}` once, but {}",
                                         spec_.TextOf(tensor.name.range), part(p).name, fmt::join(wrong, ", and ")),
                  .notes = {{part(p).range, fmt::format("it is {}", TextOf(p))}},
                  .hint = "each factor is named once: by a counter of the name, or in a dimension"});
    return false;
  }

  bool RefuseCounter(const Counter& counter, std::size_t p) {
    sound_ = false;
    sink_.Report({.kind = DiagnosticKind::kPartFactors,
                  .place = counter.count.range,
                  .message = fmt::format("the counter `{}` goes to `{}`, which names no factor of `{}`", counter.name,
                                         spec_.TextOf(counter.count.range), part(p).name),
                  .notes = {{part(p).range, fmt::format("it is {}", TextOf(p))}}});
    return false;
  }

  // Under conditions the rest is seen when dims have values.
  void CheckIsFirst(const TensorDeclaration& tensor, const PartTerm& term, std::size_t p) {
    if (CountVariants(tensor.name) > 1) return ReportTwice(term.range, p, tensor.name.range, "by each of these names");
    for (const Stored& before : stored_[p]) {
      const bool is_of_both = before.tensor == &tensor || (before.tensor->guards.empty() && tensor.guards.empty());
      if (is_of_both) return ReportTwice(term.range, p, before.range, "here as well");
    }
    stored_[p].push_back({&tensor, term.range});
  }

  void ReportTwice(SourceRange range, std::size_t p, SourceRange other, std::string note) {
    sound_ = false;
    sink_.Report({.kind = DiagnosticKind::kPartTwice,
                  .place = range,
                  .message = fmt::format("layout `{}` stores the part `{}` twice", spec_.layout_name, part(p).name),
                  .notes = {{other, std::move(note)}}});
  }

  void CheckIsStored(std::size_t p) {
    if (!stored_[p].empty()) return;
    sink_.Report({.kind = DiagnosticKind::kPartMissing,
                  .place = spec_.layout_range,
                  .message = fmt::format("layout `{}` does not store the part `{}`", spec_.layout_name, part(p).name),
                  .notes = {{part(p).range, fmt::format("it is {}", TextOf(p))}}});
  }

  void Report(const TermProblem& problem) {
    sound_ = false;
    const bool is_label = problem.kind == TermProblem::Kind::kTwoLabels;
    const bool is_number = problem.kind == TermProblem::Kind::kTooLarge;
    sink_.Report({.kind = is_label    ? DiagnosticKind::kPartFactors
                          : is_number ? DiagnosticKind::kNumberOutOfRange
                                      : DiagnosticKind::kUnlabelledPlaces,
                  .place = problem.range,
                  .message = problem.message,
                  .hint = problem.hint});
  }

  struct Stored {
    const TensorDeclaration* tensor;
    SourceRange range;
  };

  const CheckedSpec& spec_;
  DiagnosticSink& sink_;
  const PartTerms terms_;
  std::vector<std::vector<std::string>> factors_;  // By part.
  std::vector<std::vector<Stored>> stored_;
  bool sound_ = true;
};

}  // namespace

void CheckModel(const ast::File& file, Scope& scope, CheckedSpec& spec, DiagnosticSink& sink) {
  const Scope labelled = [&] {
    Scope copy = scope;
    copy.takes_labels = true;
    return copy;
  }();
  ModelChecker checker(labelled, spec, sink);
  for (const ast::Declaration& declaration : file.declarations) {
    const auto* model = std::get_if<ast::Model>(&declaration.node);
    if (model == nullptr) continue;
    spec.model ? checker.ReportSecond(*model) : checker.Run(*model);
  }
  scope.takes_labels = spec.model.has_value();
}

std::vector<Formula> DimsOfWholePart(const CheckedSpec& spec, std::size_t part, const Pattern& name) {
  std::vector<std::string> counted;
  for (const Counter& counter : name.counters) {
    for (const TermFactor& factor : PartTerms(spec).FactorsOf(counter, AnyLength).value_or(std::vector<TermFactor>{})) {
      counted.push_back(factor.name);
    }
  }
  std::vector<Formula> dims;
  for (Formula dim : spec.model->parts[part].dims) {
    if (IsCounted(dim, spec, counted)) continue;
    if (dim.kind == Formula::Kind::kProduct && dim.label.empty()) {
      for (std::size_t i = dim.operands.size(); i-- > 0;) {
        if (dim.operators[i] != Formula::Operator::kTimes || !IsCounted(dim.operands[i], spec, counted)) continue;
        dim.operands.erase(dim.operands.begin() + static_cast<std::ptrdiff_t>(i));
        dim.operators.erase(dim.operators.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (dim.operands.empty()) continue;
    }
    dims.push_back(std::move(dim));
  }
  return dims;
}

void CheckParts(const CheckedSpec& spec, DiagnosticSink& sink) {
  if (!spec.model) return;
  PartsChecker(spec, sink).Run();
}

}  // namespace ucp
