// The axis rule: in one tensor, its captures included, an axis cuts one dimension or one capture; inside that dimension
// each product uses it once, and each part of a sum may. `[a@x, b@x]` would hold only the diagonal blocks.
#include <fmt/format.h>

#include <map>

#include "compiler/check/declarations.h"

namespace ucp {
namespace {

using Kind = Formula::Kind;
using Uses = std::map<std::string, SourceRange>;  // Each axis that cuts, and where it does so first.

class ShapeChecker {
 public:
  ShapeChecker(const Source& source, DiagnosticSink& sink) : source_(source), sink_(sink) {}

  bool Check(const TensorDeclaration& tensor) {
    Uses all;
    for (const Counter& counter : tensor.name.counters) {
      if (counter.over_stages) Use(all, "pp", counter.cut_range, "cuts two counters of this name");
    }
    for (const Formula& dim : tensor.dims) {
      WarnOfNumbers(dim);
      for (const auto& [axis, range] : UsesOf(dim)) Use(all, axis, range, "cuts two dimensions of this tensor");
    }
    if (tensor.stages && all.contains("pp")) ReportStages(all.at("pp"), tensor.stages->range);
    return sound_;
  }

 private:
  Uses UsesOf(const Formula& formula) {
    Uses uses;
    if (formula.kind == Kind::kPad) {
      for (const Formula& operand : formula.operands) CheckUncut(operand);
      return uses;
    }
    for (const Formula& operand : formula.operands) {
      for (const auto& [axis, range] : UsesOf(operand)) {
        if (formula.kind == Kind::kSum) {
          uses.emplace(axis, range);
        } else {
          Use(uses, axis, range, "cuts two factors of one product");
        }
      }
    }
    for (std::size_t i = 0; i < formula.axes.size(); ++i) {
      Use(uses, formula.axes[i], formula.axis_ranges[i], "cuts what it has cut already");
    }
    return uses;
  }

  void Use(Uses& uses, const std::string& axis, SourceRange range, std::string_view problem) {
    auto [entry, added] = uses.emplace(axis, range);
    if (added) return;
    sink_.Report({.kind = DiagnosticKind::kAxisCutsTwice,
                  .place = range,
                  .message = fmt::format("`{}` {}", axis, problem),
                  .notes = {{entry->second, "its first cut"}}});
    sound_ = false;
  }

  void ReportStages(SourceRange cut, SourceRange stages) {
    sink_.Report({.kind = DiagnosticKind::kBadStages,
                  .place = stages,
                  .message = "a tensor that is cut over the stages is on all of them",
                  .notes = {{cut, "cut here"}}});
    sound_ = false;
  }

  // Padding stands behind all elements of the whole, so it is added first and cut afterwards.
  void CheckUncut(const Formula& padded) {
    auto cuts = CutsOf(padded);
    if (cuts.empty()) return;
    sink_.Report(
        {.kind = DiagnosticKind::kCutInsidePad,
         .place = cuts.front()->cut_range,
         .message = fmt::format("`{}` is cut before it is padded", source_.TextOf(cuts.front()->operands[0].range)),
         .hint = "cut the padded whole: pad(…)@axis"});
    sound_ = false;
  }

  // `4 * hidden@tp` and `(4 * hidden)@tp` have the same size and hold different positions.
  void WarnOfNumbers(const Formula& formula) {
    for (const Formula& operand : formula.operands) WarnOfNumbers(operand);
    if (formula.kind != Kind::kProduct) return;
    const Formula* number = nullptr;
    for (std::size_t i = 0; i < formula.operands.size(); ++i) {
      const Formula& factor = formula.operands[i];
      if (formula.operators[i] != Formula::Operator::kTimes) return;
      if (factor.kind == Kind::kNumber && factor.number > 1) number = &factor;
      if (factor.kind != Kind::kCut || factor.parenthesized || !number) continue;
      Warn(*number, factor);
      return;
    }
  }

  void Warn(const Formula& number, const Formula& cut) {
    std::string_view before = source_.TextOf({number.range.begin, cut.operands[0].range.begin});
    std::string_view operand = source_.TextOf(cut.operands[0].range);
    std::string_view axis = source_.TextOf(cut.cut_range);
    sink_.Report(
        {.kind = DiagnosticKind::kNumberLeftOfCut,
         .place = Cover(number.range, cut.range),
         .message = fmt::format("each of the {} parts is cut, which has the same size as a cut through all of them",
                                number.number),
         .hint = fmt::format("write `{0}({1}{2})` to keep a piece of every part on every rank\n"
                             "write `({0}{1}){2}` to cut through the parts",
                             before, operand, axis)});
  }

  const Source& source_;
  DiagnosticSink& sink_;
  bool sound_ = true;
};

}  // namespace

bool CheckShape(const TensorDeclaration& tensor, const Source& source, DiagnosticSink& sink) {
  return ShapeChecker(source, sink).Check(tensor);
}

}  // namespace ucp
