#include <fmt/format.h>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

// What the blocks around an item say. A block whose own name is wrong is not entered: its items would all be wrong.
struct Surroundings {
  Pattern prefix;
  std::optional<StagesDeclaration> stages;
  Guards guards;
};

class LayoutChecker {
 public:
  LayoutChecker(const Scope& scope, CheckedSpec& spec, DiagnosticSink& sink)
      : scope_(scope), spec_(spec), sink_(sink) {}

  void CheckItems(const std::vector<ast::Item>& items, const Surroundings& around) {
    for (const ast::Item& item : items) {
      std::visit([&](const auto& node) { Check(item.range, node, around); }, item.node);
    }
  }

 private:
  void Check(SourceRange, const ast::Tensor& node, const Surroundings& around) {
    bool served = RefuseAssigned(node);
    TensorDeclaration tensor;
    tensor.optional = node.optional;
    tensor.buffer = node.buffer;
    tensor.shape_range = node.shape.range;
    tensor.guards = around.guards;
    auto name = CheckPattern(around.prefix, node.name, scope_, sink_);
    bool complete = served && name;
    for (const ast::Expr& expr : node.shape.dimensions) {
      auto dim = BuildFormula(expr, Role::kLength, scope_, name ? name->counters : around.prefix.counters, sink_);
      complete = complete && dim;
      if (dim) tensor.dims.push_back(std::move(*dim));
    }
    complete = AddQualifiers(node, scope_, tensor, sink_) && complete;
    if (!name) return;
    if (!AddStages(node.stages, *name, around, tensor.stages) || !complete) return;
    tensor.name = std::move(*name);
    if (CheckShape(tensor, spec_, sink_)) spec_.tensors.push_back(std::move(tensor));
  }

  bool RefuseAssigned(const ast::Tensor& node) {
    if (node.assigned) RefuseNotServed(node.name.range, "`=` after a name, a part of a model,", sink_);
    return !node.assigned;
  }

  void Check(SourceRange, const ast::Block& node, const Surroundings& around) {
    auto name = CheckPattern(around.prefix, node.name, scope_, sink_);
    if (!name) return;
    Surroundings inner;
    inner.guards = around.guards;
    if (!AddStages(node.stages, *name, around, inner.stages)) return;
    PatternPiece dot;
    dot.range = node.name.range;
    dot.options = {"."};
    name->pieces.push_back(std::move(dot));
    inner.prefix = std::move(*name);
    CheckItems(node.items, inner);
  }

  void Check(SourceRange, const ast::Tie& node, const Surroundings& around) {
    auto second = CheckPattern(around.prefix, node.left, scope_, sink_);
    auto first = CheckPattern(around.prefix, node.right, scope_, sink_);
    std::optional<StagesDeclaration> stages;
    if (!second || !first || !AddStages(node.stages, *second, around, stages)) return;
    spec_.ties.push_back({std::move(*second), std::move(*first), std::move(stages), around.guards});
  }

  void Check(SourceRange, const ast::Drop& node, const Surroundings& around) {
    auto name = CheckPattern(around.prefix, node.name, scope_, sink_);
    if (name) spec_.drops.push_back({std::move(*name), around.guards});
  }

  // Each branch stands under its own condition, and under all before it, which do not hold there. Behind a condition
  // that is wrong, branches are looked at as if it were not there.
  void Check(SourceRange, const ast::When& node, const Surroundings& around) {
    Surroundings inner = around;
    for (const ast::Branch& branch : node.branches) {
      auto condition = BuildCondition(branch.condition, scope_, around.prefix, sink_);
      if (inner.guards.size() >= kMaxGuards) {
        ReportTooManyGuards(branch.condition.range);
        return;
      }
      if (condition) inner.guards.push_back({std::make_shared<const Condition>(std::move(*condition)), true});
      CheckItems(branch.items, inner);
      if (condition) inner.guards.back().holds = false;
    }
    CheckItems(node.otherwise, inner);
  }

  void ReportTooManyGuards(SourceRange range) {
    sink_.Report({.kind = DiagnosticKind::kNestingTooDeep,
                  .place = range,
                  .message = fmt::format("more than {} conditions decide about the items here", kMaxGuards)});
  }

  void Check(SourceRange, const ast::Include& node, const Surroundings&) { RefuseInclude(node, sink_); }
  // What all layers of a layout have in common, so it stands once and in no block.
  void Check(SourceRange range, const ast::Interleave& node, const Surroundings& around) {
    if (spec_.interleave || !around.prefix.pieces.empty()) {
      std::vector<Note> notes;
      if (spec_.interleave) notes.push_back({spec_.interleave->range, "said here"});
      sink_.Report({.kind = DiagnosticKind::kBadStages,
                    .place = range,
                    .message = "`interleave` is said once, for the whole layout",
                    .notes = std::move(notes)});
      return;
    }
    spec_.interleave = BuildFormula(node.chunks, Role::kStage, scope_, {}, sink_);
  }

  // The stages of an item are its own or its block's, and not both.
  bool AddStages(const std::optional<ast::Stages>& own, const Pattern& name, const Surroundings& around,
                 std::optional<StagesDeclaration>& stages) {
    if (!own) {
      stages = around.stages;
      return !stages || CheckUncounted(name, *stages);
    }
    if (around.stages) {
      sink_.Report({.kind = DiagnosticKind::kBadStages,
                    .place = own->range,
                    .message = "the block around this says `at` already",
                    .notes = {{around.stages->range, "said here"}}});
      return false;
    }
    stages = CheckStages(*own, name, scope_, sink_);
    return stages.has_value();
  }

  // Inside a block with `at`, no counter is split over the stages.
  bool CheckUncounted(const Pattern& name, const StagesDeclaration& stages) {
    for (const Counter& counter : name.counters) {
      if (!counter.over_stages) continue;
      sink_.Report({.kind = DiagnosticKind::kBadStages,
                    .place = counter.cut_range,
                    .message = fmt::format("the stages of `{}` are given already", counter.name),
                    .notes = {{stages.range, "by the block around it"}}});
      return false;
    }
    return true;
  }

  const Scope& scope_;
  CheckedSpec& spec_;
  DiagnosticSink& sink_;
};

}  // namespace

void CheckLayouts(const ast::File& file, const Scope& scope, CheckedSpec& spec, DiagnosticSink& sink) {
  const ast::Layout* first = nullptr;
  for (const ast::Declaration& declaration : file.declarations) {
    const auto* layout = std::get_if<ast::Layout>(&declaration.node);
    if (!layout) continue;
    if (layout->model) RefuseNotServed(layout->model->range, "`of`, a layout of a model,", sink);
    if (first) RefuseNotServed(layout->name.range, "a second `layout` in one spec", sink);
    if (first || layout->model) continue;
    first = layout;
    spec.layout_name = layout->name.text;
    spec.layout_range = layout->name.range;
    LayoutChecker(scope, spec, sink).CheckItems(layout->items, {});
  }
  if (first || sink.has_errors()) return;
  sink.Report({.kind = DiagnosticKind::kMissingLayout,
               .place = file.version_range,
               .message = "this spec declares no layout, so it says nothing about any tensor",
               .hint = "add one: layout NAME { \"tensor.name\" [rows, columns] }"});
}

}  // namespace ucp
