#include "compiler/bind/unmatched_patterns.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bind/values/evaluate_condition.h"
#include "compiler/bind/values/expand_pattern.h"
#include "compiler/bind/values/inventory_index.h"

namespace ucp {
namespace {

class NothingFinder {
 public:
  NothingFinder(const BoundSpec& bound, const Header& header, DiagnosticSink& sink)
      : header_(header), sink_(sink), values_{bound.spec, bound.dims, *bound.source_mesh, bound.facts, &header} {}

  void Run() {
    for (const TensorDeclaration& tensor : values_.spec.tensors) {
      WarnIfUnmatched(tensor.name, tensor.guards,
                      tensor.optional ? "the checkpoint has no {} of this optional pattern" : "");
    }
    for (const TieDeclaration& tie : values_.spec.ties) {
      WarnIfUnmatched(tie.second, tie.guards, "the checkpoint has no {} by the second name that this gives");
    }
    for (const DropDeclaration& drop : values_.spec.drops) {
      WarnIfUnmatched(drop.name, drop.guards, "the checkpoint has no {} that this drops");
    }
  }

 private:
  // `message` is empty for a pattern of which binding has found every name.
  void WarnIfUnmatched(const Pattern& pattern, const Guards& guards, std::string_view message) {
    auto names = Expander(values_, ignored_).Expand(pattern, guards);
    if (!names) return;
    if (names->empty()) {
      if (guards.empty()) Warn(pattern, "this pattern stands for no names here");
      return;
    }
    bool here =
        std::any_of(names->begin(), names->end(), [&](const ExpandedName& name) { return header_.Has(name.name); });
    if (here || message.empty()) return;
    std::string what = fmt::format("tensor `{}`", names->front().name);
    if (names->size() > 1) what += fmt::format(", nor any of {} more,", names->size() - 1);
    Warn(pattern, fmt::format(fmt::runtime(message), what));
  }

  void Warn(const Pattern& pattern, std::string message) {
    References references;
    for (const Counter& counter : pattern.counters) references.Add(counter.count);
    sink_.Report({.kind = DiagnosticKind::kPatternMatchesNothing,
                  .place = pattern.range,
                  .message = std::move(message),
                  .notes = NotesOf(references, values_)});
  }

  const Header& header_;
  DiagnosticSink& sink_;
  DiagnosticSink ignored_;  // Binding has reported what is wrong.
  Values values_;
};

}  // namespace

void WarnOfUnmatchedPatterns(const BoundSpec& bound, const Inventory& inventory, const Settings& set,
                             DiagnosticSink& sink) {
  InventoryIndex found(inventory);
  found.NameLayers(bound.shard_names);
  Header header(found, set);
  if (header.exists()) NothingFinder(bound, header, sink).Run();
}

}  // namespace ucp
