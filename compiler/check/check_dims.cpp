#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/check_spec.h"
#include "compiler/check/declarations.h"
#include "compiler/layout/mesh.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

std::string Dotted(const ast::MetadataPath& path) {
  std::string text;
  for (const ast::Identifier& segment : path.segments) text += (text.empty() ? "" : ".") + segment.text;
  return text;
}

class DimChecker {
 public:
  DimChecker(Scope& scope, CheckedSpec& spec, DiagnosticSink& sink) : scope_(scope), spec_(spec), sink_(sink) {}

  void Run(const ast::File& file) {
    for (const ast::Declaration& declaration : file.declarations) {
      if (const auto* dim = std::get_if<ast::Dim>(&declaration.node)) Introduce(*dim);
      if (const auto* fact = std::get_if<ast::Fact>(&declaration.node)) Introduce(*fact);
    }
    for (std::size_t i = 0; i < dims_.size(); ++i) Fill(spec_.dims[i], *dims_[i]);
    for (std::size_t i = 0; i < facts_.size(); ++i) Fill(spec_.facts[i], *facts_[i]);
  }

 private:
  void Introduce(const ast::Dim& dim) {
    if (!IsFree(dim.name, "dim")) return;
    scope_.dims.emplace(dim.name.text, spec_.dims.size());
    scope_.dim_names.push_back(dim.name.text);
    DimDeclaration declaration;
    declaration.name = dim.name.text;
    declaration.range = dim.name.range;
    spec_.dims.push_back(std::move(declaration));
    dims_.push_back(&dim);
  }

  void Introduce(const ast::Fact& fact) {
    if (!IsFree(fact.name, "fact")) return;
    scope_.facts.emplace(fact.name.text, spec_.facts.size());
    scope_.fact_names.push_back(fact.name.text);
    FactDeclaration declaration;
    declaration.name = fact.name.text;
    declaration.range = fact.name.range;
    spec_.facts.push_back(std::move(declaration));
    facts_.push_back(&fact);
  }

  // The first declaration of a name stands; a second one is an error and left out.
  bool IsFree(const ast::Identifier& name, std::string_view what) {
    if (IsKnownAxis(name.text)) {
      return Refuse(name.range, fmt::format("`{}` is the name of a mesh axis, and cannot name a {}", name.text, what));
    }
    auto dim = scope_.dims.find(name.text);
    auto fact = scope_.facts.find(name.text);
    bool is_dim = dim != scope_.dims.end();
    if (is_dim || fact != scope_.facts.end()) {
      SourceRange first = is_dim ? spec_.dims[dim->second].range : spec_.facts[fact->second].range;
      bool same = is_dim == (what == "dim");
      return Refuse(name.range,
                    same ? fmt::format("{} `{}` is declared twice", what, name.text)
                         : fmt::format("`{}` is declared as a dim and as a fact", name.text),
                    {{first, "the first declaration"}});
    }
    return HasRoom(name);
  }

  // Values spread from one to the next, which a million of them would make endless.
  bool HasRoom(const ast::Identifier& name) {
    if (spec_.dims.size() + spec_.facts.size() < kMaxDimsAndFacts) return true;
    if (!full_) {
      sink_.Report({.kind = DiagnosticKind::kTooManyNames,
                    .place = name.range,
                    .message = fmt::format("this spec has more than {} dims and facts", kMaxDimsAndFacts)});
    }
    full_ = true;
    return false;
  }

  bool Refuse(SourceRange range, std::string message, std::vector<Note> notes = {}) {
    sink_.Report({.kind = DiagnosticKind::kDuplicateName,
                  .place = range,
                  .message = std::move(message),
                  .notes = std::move(notes)});
    return false;
  }

  // Where checkpoints say things is known: a path that begins otherwise is found in none.
  MetadataPath SourceOf(const ast::MetadataPath& path) {
    static const std::vector<std::string> kRoots = {"args", "config", "info", "ds_config"};
    const ast::Identifier& root = path.segments.front();
    if (std::ranges::find(kRoots, root.text) == kRoots.end()) {
      const auto nearest = NearestWord(root.text, kRoots);
      sink_.Report(
          {.kind = DiagnosticKind::kUnknownName,
           .place = root.range,
           .message = fmt::format("paths begin with args, config, info or ds_config, not with `{}`", root.text),
           .notes = {},
           .hint = nearest ? fmt::format("did you mean `{}`?", *nearest) : ""});
    }
    return {Dotted(path), path.range};
  }

  void Fill(DimDeclaration& dim, const ast::Dim& node) {
    for (const ast::MetadataPath& path : node.from) dim.from.push_back(SourceOf(path));
    if (node.definition) dim.definition = BuildFormula(*node.definition, Role::kDimValue, scope_, {}, sink_);
    if (node.condition) dim.condition = BuildCondition(*node.condition, scope_, {}, sink_);
    if (node.otherwise) dim.otherwise = BuildFormula(*node.otherwise, Role::kDimValue, scope_, {}, sink_);
  }

  void Fill(FactDeclaration& fact, const ast::Fact& node) {
    for (const ast::MetadataPath& path : node.from) fact.from.push_back(SourceOf(path));
    if (node.definition) fact.definition = BuildFactExpression(*node.definition, scope_, sink_);
    if (node.condition) fact.condition = BuildCondition(*node.condition, scope_, {}, sink_);
    if (node.otherwise) fact.otherwise = BuildFactExpression(*node.otherwise, scope_, sink_);
  }

  Scope& scope_;
  CheckedSpec& spec_;
  DiagnosticSink& sink_;
  std::vector<const ast::Dim*> dims_;  // In the order of the spec's.
  std::vector<const ast::Fact*> facts_;
  bool full_ = false;
};

}  // namespace

void CheckDimsAndFacts(const ast::File& file, Scope& scope, CheckedSpec& spec, DiagnosticSink& sink) {
  DimChecker(scope, spec, sink).Run(file);
}

}  // namespace ucp
