#include <fmt/format.h>

#include <string_view>
#include <unordered_set>

#include "compiler/check/declarations.h"
#include "compiler/layout/mesh.h"

namespace ucp {
namespace {

class PatternChecker {
 public:
  PatternChecker(Pattern pattern, const Scope& scope, DiagnosticSink& sink)
      : pattern_(std::move(pattern)), scope_(scope), sink_(sink) {}

  std::optional<Pattern> Run(const ast::NamePattern& name) {
    pattern_.range = name.range;
    for (const ast::NamePiece& piece : name.pieces) {
      std::visit([&](const auto& node) { Add(node); }, piece);
    }
    CheckSize();
    if (!complete_) return std::nullopt;
    return std::move(pattern_);
  }

 private:
  void Add(const ast::Literal& literal) {
    PatternPiece piece;
    piece.range = literal.range;
    piece.options = {literal.text};
    pattern_.pieces.push_back(std::move(piece));
  }

  void Add(const ast::Alternatives& alternatives) {
    PatternPiece piece;
    piece.kind = PatternPiece::Kind::kAlternatives;
    piece.range = alternatives.range;
    std::unordered_set<std::string_view> before;  // Of `alternatives`, which stay where they are.
    for (const ast::Literal& option : alternatives.options) {
      if (!before.insert(option.text).second) {
        Report(DiagnosticKind::kAmbiguousPatterns, option.range,
               fmt::format("the alternative `{}` stands here twice", option.text));
      }
      piece.options.push_back(option.text);
    }
    pattern_.pieces.push_back(std::move(piece));
  }

  void Add(const ast::Computed& computed) {
    auto number = BuildFormula(computed.value, Role::kPrinted, scope_, pattern_.counters, sink_);
    complete_ = complete_ && number;
    if (!number) return;
    PatternPiece piece;
    piece.kind = PatternPiece::Kind::kNumber;
    piece.range = computed.range;
    piece.number = std::move(*number);
    pattern_.pieces.push_back(std::move(piece));
  }

  void Add(const ast::Capture& capture) {
    CheckName(capture.counter);
    auto counter = CheckCount(capture);
    std::optional<Formula> offset;
    if (capture.offset) {  // Of dims and outer counters; not of itself.
      offset = BuildFormula(*capture.offset, Role::kPrinted, scope_, pattern_.counters, sink_);
      complete_ = complete_ && offset;
    }
    complete_ = complete_ && counter;
    pattern_.pieces.push_back(Print(capture, std::move(offset)));
    pattern_.counters.push_back(counter ? std::move(*counter) : Unknown(capture));
  }

  // The rest may speak of a counter whose count is wrong.
  static Counter Unknown(const ast::Capture& capture) {
    Counter counter;
    counter.name = capture.counter.text;
    counter.range = capture.range;
    return counter;
  }

  static Formula Multiplied(Formula counter, std::int64_t factor) {
    Formula number;
    number.range = counter.range;
    number.number = factor;
    Formula product;
    product.kind = Formula::Kind::kProduct;
    product.range = counter.range;
    product.operands = {std::move(number), std::move(counter)};
    product.operators = {Formula::Operator::kTimes, Formula::Operator::kTimes};
    return product;
  }

  PatternPiece Print(const ast::Capture& capture, std::optional<Formula> offset) const {
    PatternPiece piece;
    piece.kind = PatternPiece::Kind::kNumber;
    piece.range = capture.range;
    piece.counts = true;
    piece.counter = pattern_.counters.size();
    Formula value;
    value.kind = Formula::Kind::kCounter;
    value.range = capture.counter.range;
    value.index = piece.counter;
    if (capture.factor != 1) value = Multiplied(std::move(value), capture.factor);
    if (!offset) {
      piece.number = std::move(value);
      return piece;
    }
    piece.number.kind = Formula::Kind::kSum;
    piece.number.range = capture.range;
    piece.number.operands = {std::move(value), std::move(*offset)};
    piece.number.operators = {Formula::Operator::kPlus, Formula::Operator::kPlus};
    return piece;
  }

  void CheckName(const ast::Identifier& name) {
    if (IsKnownAxis(name.text)) {
      Report(DiagnosticKind::kDuplicateName, name.range,
             fmt::format("`{}` is the name of a mesh axis, and cannot name a counter", name.text));
    } else if (scope_.dims.contains(name.text)) {
      Report(DiagnosticKind::kDuplicateName, name.range,
             fmt::format("`{}` is a dim, and cannot name a counter as well", name.text));
    } else if (scope_.facts.contains(name.text)) {
      Report(DiagnosticKind::kDuplicateName, name.range,
             fmt::format("`{}` is a fact, and cannot name a counter as well", name.text));
    }
    for (const Counter& counter : pattern_.counters) {
      if (counter.name != name.text) continue;
      sink_.Report({.kind = DiagnosticKind::kDuplicateName,
                    .place = name.range,
                    .message = fmt::format("this name has a counter `{}` already", name.text),
                    .notes = {{counter.range, "the first one"}}});
      complete_ = false;
    }
  }

  void CheckSize() {
    std::size_t bytes = 0;
    for (const PatternPiece& piece : pattern_.pieces) {
      for (const std::string& option : piece.options) bytes += option.size();
    }
    if (pattern_.pieces.size() <= kMaxPieces && bytes <= kMaxNameBytes) return;
    Report(DiagnosticKind::kTooManyNames, pattern_.range,
           fmt::format("this name, with those of its blocks, is longer than {} bytes or {} pieces", kMaxNameBytes,
                       kMaxPieces));
  }

  // `layers` or `layers@pp`: which layer is on which stage is a fact of the checkpoint, or of the strategy. A part of
  // the name that another axis cuts (experts over ep) puts different tensors on different ranks.
  std::optional<Counter> CheckCount(const ast::Capture& capture) {
    Counter counter;
    counter.name = capture.counter.text;
    counter.range = capture.range;
    counter.local = capture.local;
    const ast::Expr* count = &capture.count;
    const auto* cut = std::get_if<ast::Cut>(&count->node);
    if (cut != nullptr) {
      if (!CheckCut(*cut)) return std::nullopt;
      counter.over_stages = cut->axes.front().text == "pp";
      counter.cut_range = cut->cut_range;
      count = &*cut->operand;
    }
    auto formula = BuildFormula(*count, Role::kCount, scope_, pattern_.counters, sink_);
    if (!formula || !CheckStages(*formula, counter) || !CheckLocal(capture, counter)) return std::nullopt;
    counter.count = std::move(*formula);
    if (cut != nullptr && !counter.over_stages && !AddCut(capture.count, *cut, counter)) return std::nullopt;
    return counter;
  }

  bool CheckCut(const ast::Cut& cut) {
    bool sound = true;
    bool stages = false;
    for (const ast::Identifier& axis : cut.axes) {
      sound = scope_.CheckAxis(axis, sink_) && sound;
      stages = stages || axis.text == "pp";
    }
    if (!sound) return false;
    if (stages && (cut.axes.size() > 1 || cut.rule != ast::CutRule::kEven)) {
      Report(DiagnosticKind::kBadExpression, cut.cut_range,
             "layers are spread over the stages alone, as the checkpoint or the strategy says: pp=8+8+6");
      return false;
    }
    return true;
  }

  // The stages are those of one row of layers.
  bool CheckStages(const Formula& count, const Counter& counter) {
    if (!counter.over_stages || !HasCounter(count)) return true;
    Report(DiagnosticKind::kBadExpression, count.range,
           "layers are spread over the stages alone, and this count is another one for each value of a counter");
    return false;
  }

  // Only stages count for themselves.
  bool CheckLocal(const ast::Capture& capture, const Counter& counter) {
    if (!capture.local || counter.over_stages) return true;
    Report(DiagnosticKind::kBadExpression, capture.range,
           fmt::format("`{}.local` counts from 0 on every stage, and this counter is not cut by `pp`", counter.name));
    return false;
  }

  bool AddCut(const ast::Expr& expr, const ast::Cut& node, Counter& counter) {
    Formula cut;
    cut.kind = Formula::Kind::kCut;
    cut.range = expr.range;
    cut.cut_range = node.cut_range;
    cut.operands = {counter.count};
    if (!BuildCutRule(node, scope_, pattern_.counters, cut, sink_)) return false;
    if (TakesHeaderWidths(cut)) {
      Report(DiagnosticKind::kUnknownWidths, cut.cut_range,
             "a counter has no length in a header to take widths from; write them: (widths [3, 3, 2])");
      return false;
    }
    counter.cut.push_back(std::move(cut));
    return true;
  }

  void Report(DiagnosticKind kind, SourceRange range, std::string message) {
    sink_.Report({.kind = kind, .place = range, .message = std::move(message)});
    complete_ = false;
  }

  Pattern pattern_;
  const Scope& scope_;
  DiagnosticSink& sink_;
  bool complete_ = true;
};

}  // namespace

std::optional<Pattern> CheckPattern(const Pattern& prefix, const ast::NamePattern& name, const Scope& scope,
                                    DiagnosticSink& sink) {
  return PatternChecker(prefix, scope, sink).Run(name);
}

}  // namespace ucp
