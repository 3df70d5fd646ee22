#include <fmt/format.h>

#include "compiler/check/declarations.h"
#include "compiler/spec/part_terms.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

// The context from the blocks around an item. A block whose own name is wrong is not entered: its items would all be
// wrong.
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
    TensorDeclaration tensor;
    tensor.optional = node.optional;
    tensor.buffer = node.buffer;
    tensor.shape_range = node.shape.range;
    tensor.guards = around.guards;
    auto name = CheckPattern(around.prefix, node.name, scope_, sink_);
    bool complete = name && AddPart(node, *name, tensor);
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

  // `=` is for layouts of a model alone, and all their tensors have it. False after reporting.
  bool AddPart(const ast::Tensor& node, const Pattern& name, TensorDeclaration& tensor) {
    if (node.assigned != scope_.takes_labels) {
      return Refuse(DiagnosticKind::kModelMismatch, node.name.range,
                    node.assigned ? "`=` says which part of a model a tensor is, and this layout is of no model"
                                  : "in a layout of a model, `=` says which part each tensor is",
                    node.assigned ? "" : "write = before the shape, with a label for each part: = [q: rows, columns]");
    }
    if (scope_.takes_labels && (node.mean || node.scale)) {
      RefuseNotServed(node.mean ? node.mean->range : node.scale->range,
                      fmt::format("`{}` in a layout of a model", node.mean ? "mean" : "scale"), sink_);
      return false;
    }
    if (!node.part) return true;
    const auto* part = std::get_if<ast::Name>(&node.part->node);
    const auto found = part == nullptr ? std::nullopt : FindPart(spec_, part->text);
    if (!found) return RefuseUnknownPart(node.part->range);
    tensor.part = part->text;
    tensor.part_range = tensor.shape_range = node.part->range;
    if (node.has_own_order) tensor.shape_range = node.shape.range;
    if (!node.has_own_order) tensor.dims = DimsOfWholePart(spec_, *found, name);
    return true;
  }

  bool RefuseUnknownPart(SourceRange range) {
    std::vector<std::string> parts;
    for (const PartDeclaration& part : spec_.model->parts) parts.push_back(part.name);
    const auto nearest = NearestWord(spec_.TextOf(range), parts);
    return Refuse(DiagnosticKind::kUnknownName, range,
                  fmt::format("the model `{}` has no part `{}`", spec_.model->name, spec_.TextOf(range)),
                  nearest ? fmt::format("did you mean `{}`?", *nearest) : "");
  }

  bool Refuse(DiagnosticKind kind, SourceRange range, std::string message, std::string hint) {
    sink_.Report({.kind = kind, .place = range, .message = std::move(message), .hint = std::move(hint)});
    return false;
  }

  void Check(SourceRange range, const ast::Block& node, const Surroundings& around) {
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
    SourceRange head{range.begin, node.name.range.end};
    if (node.optional && !AddGuard(IsThere(inner.prefix, head, around), inner.guards)) return;
    CheckItems(node.items, inner);
  }

  // The tensor that an optional block is there by. It is asked for each choice of the counters around it.
  static Condition IsThere(const Pattern& prefix, SourceRange head, const Surroundings& around) {
    Condition condition;
    condition.kind = Condition::Kind::kHas;
    condition.range = head;
    condition.name = {prefix};
    condition.is_block = true;
    condition.outer = around.prefix.counters.size();
    return condition;
  }

  void Check(SourceRange, const ast::Tie& node, const Surroundings& around) {
    auto second = CheckPattern(around.prefix, node.left, scope_, sink_);
    auto outer_name = NameFromRoot(node.right);
    Pattern root;
    root.counters = around.prefix.counters;  // They may be spoken of, and are not printed.
    auto first = CheckPattern(outer_name ? root : around.prefix, outer_name.value_or(node.right), scope_, sink_);
    std::optional<StagesDeclaration> stages;
    if (!second || !first || !AddStages(node.stages, *second, around, stages)) return;
    if (outer_name && !CheckOneStage(*second, root, node.right.range)) return;
    spec_.ties.push_back({std::move(*second), std::move(*first), outer_name ? root.counters.size() : 0,
                          std::move(stages), around.guards});
  }

  // ".embed.weight", the name of a tensor outside of the blocks, without its dot; nothing if it has none.
  static std::optional<ast::NamePattern> NameFromRoot(const ast::NamePattern& name) {
    const auto* start = name.pieces.empty() ? nullptr : std::get_if<ast::Literal>(&name.pieces.front());
    if (start == nullptr || start->text.front() != '.') return std::nullopt;
    ast::NamePattern without = name;
    auto& literal = std::get<ast::Literal>(without.pieces.front());
    literal.text.erase(0, 1);
    if (literal.text.empty()) without.pieces.erase(without.pieces.begin());
    return without;
  }

  // A tensor's second names are on stages that `at` names, and not on those of layers.
  bool CheckOneStage(const Pattern& second, const Pattern& around, SourceRange range) {
    for (const Counter& counter : around.counters) {
      if (!counter.over_stages) continue;
      sink_.Report(
          {.kind = DiagnosticKind::kBadStages,
           .place = range,
           .message = fmt::format("the block around `{}` is spread over the stages, and a tensor outside of it "
                                  "is not on the stage of each layer",
                                  spec_.TextOf(second.range)),
           .notes = {{counter.range, "spread here"}}});
      return false;
    }
    return true;
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
      if (condition && !AddGuard(std::move(*condition), inner.guards)) return;
      CheckItems(branch.items, inner);
      if (condition) inner.guards.back().holds = false;
    }
    CheckItems(node.otherwise, inner);
  }

  // False after reporting.
  bool AddGuard(Condition condition, Guards& guards) {
    if (guards.size() >= kMaxGuards) {
      sink_.Report({.kind = DiagnosticKind::kNestingTooDeep,
                    .place = condition.range,
                    .message = fmt::format("more than {} conditions decide about the items here", kMaxGuards)});
      return false;
    }
    guards.push_back({std::make_shared<const Condition>(std::move(condition)), true});
    return true;
  }

  void Check(SourceRange, const ast::Include& node, const Surroundings&) { RefuseInclude(node, sink_); }
  // A property of all layers of a layout, so it stands once and in no block.
  void Check(SourceRange range, const ast::Interleave& node, const Surroundings& around) {
    if (spec_.interleave || !around.prefix.pieces.empty()) {
      std::vector<Note> notes;
      if (spec_.interleave) notes.push_back({spec_.interleave->range, "said here"});
      sink_.Report({.kind = DiagnosticKind::kBadStages,
                    .place = range,
                    .message = "`interleave` belongs to the whole layout, and stands once",
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

// A spec has one layout, or any number of layouts of its model.
class LayoutsChecker {
 public:
  LayoutsChecker(const Scope& scope, CheckedSpec& spec, DiagnosticSink& sink)
      : scope_(scope), spec_(spec), sink_(sink) {}

  void Add(const ast::Layout& layout) {
    const ast::Identifier* before = first_;
    if (first_ == nullptr) first_ = &layout.name;
    if (!CheckName(layout) || !CheckIsOfModel(layout, before)) return;
    spec_.layout_name = layout.name.text;
    spec_.layout_range = layout.name.range;
    LayoutChecker(scope_, spec_, sink_).CheckItems(layout.items, {});
    if (spec_.model) TakeOff();
  }

  bool has_layout() const { return first_ != nullptr; }

 private:
  bool CheckName(const ast::Layout& layout) {
    const auto same = FindLayout(spec_, layout.name.text);
    if (!same) return true;
    sink_.Report({.kind = DiagnosticKind::kDuplicateName,
                  .place = layout.name.range,
                  .message = fmt::format("layout `{}` is declared twice", layout.name.text),
                  .notes = {{spec_.layouts[*same].range, "the first declaration"}}});
    return false;
  }

  bool CheckIsOfModel(const ast::Layout& layout, const ast::Identifier* before) {
    if (spec_.model && layout.model && layout.model->text == spec_.model->name) return true;
    if (!spec_.model && !layout.model && before == nullptr) return true;
    const std::string& name = layout.name.text;
    std::vector<Note> notes;
    if (spec_.model) notes.push_back({spec_.model->range, "the model of this spec"});
    if (!spec_.model && !layout.model) notes.push_back({before->range, "the other layout"});
    std::string message = fmt::format("layout `{}` is of no model, and this spec has one", name);
    if (!spec_.model) message = "a second layout: only layouts of a model stand together in one spec";
    if (layout.model) {
      message =
          fmt::format("layout `{}` is of a model `{}`, which this spec does not declare", name, layout.model->text);
    }
    sink_.Report({.kind = DiagnosticKind::kModelMismatch,
                  .place = layout.model ? layout.model->range : layout.name.range,
                  .message = std::move(message),
                  .notes = std::move(notes),
                  .hint = "declare the parts once, and say of each layout that it is of them: model m { … } layout "
                          "a of m { … }"});
    return false;
  }

  void TakeOff() {
    spec_.layouts.push_back({std::move(spec_.layout_name), spec_.layout_range, std::move(spec_.interleave),
                             std::move(spec_.tensors), std::move(spec_.ties), std::move(spec_.drops)});
    spec_.interleave.reset();
    spec_.tensors.clear();
    spec_.ties.clear();
    spec_.drops.clear();
  }

  const Scope& scope_;
  CheckedSpec& spec_;
  DiagnosticSink& sink_;
  const ast::Identifier* first_ = nullptr;
};

}  // namespace

void CheckLayouts(const ast::File& file, const Scope& scope, CheckedSpec& spec, DiagnosticSink& sink) {
  LayoutsChecker checker(scope, spec, sink);
  for (const ast::Declaration& declaration : file.declarations) {
    if (const auto* layout = std::get_if<ast::Layout>(&declaration.node)) checker.Add(*layout);
  }
  if (!spec.layouts.empty()) spec = WithLayout(spec, 0);
  if (checker.has_layout() || sink.has_errors()) return;
  sink.Report({.kind = DiagnosticKind::kMissingLayout,
               .place = file.version_range,
               .message = "this spec declares no layout, so it says nothing about any tensor",
               .hint = "add one: layout NAME { \"tensor.name\" [rows, columns] }"});
}

}  // namespace ucp
