#include <fmt/format.h>

#include <algorithm>

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
    for (const ast::Literal& option : alternatives.options) {
      if (std::find(piece.options.begin(), piece.options.end(), option.text) != piece.options.end()) {
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
    if (capture.local) {
      RefuseNotServed(capture.range, fmt::format("`{}.local`, a count from 0 on every stage,", capture.counter.text),
                      sink_);
      complete_ = false;
    }
    CheckName(capture.counter);
    auto counter = CheckCount(capture);
    std::optional<Formula> offset;
    if (capture.offset) {  // Of dims and outer counters; not of itself.
      offset = BuildFormula(*capture.offset, Role::kPrinted, scope_, pattern_.counters, sink_);
      complete_ = complete_ && offset;
    }
    complete_ = complete_ && counter;
    if (!complete_) return;
    pattern_.pieces.push_back(Print(capture, std::move(offset)));
    pattern_.counters.push_back(std::move(*counter));
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

  // `layers` or `layers@pp`: which layer is on which stage is a fact of the checkpoint. A part of the name that other
  // axes cut (experts) would put different tensors on different ranks, and the layout cannot say that yet.
  std::optional<Counter> CheckCount(const ast::Capture& capture) {
    Counter counter;
    counter.name = capture.counter.text;
    counter.range = capture.range;
    const ast::Expr* count = &capture.count;
    if (const auto* cut = std::get_if<ast::Cut>(&count->node)) {
      if (!CheckCut(*cut)) return std::nullopt;
      counter.over_stages = true;
      counter.cut_range = cut->cut_range;
      count = &*cut->operand;
    }
    auto formula = BuildFormula(*count, Role::kCount, scope_, {}, sink_);
    if (!formula) return std::nullopt;
    counter.count = std::move(*formula);
    return counter;
  }

  bool CheckCut(const ast::Cut& cut) {
    bool known = true;
    for (const ast::Identifier& axis : cut.axes) known = scope_.CheckAxis(axis, sink_) && known;
    if (!known) return false;
    if (cut.rule != ast::CutRule::kEven) {
      RefuseNotServed(cut.rule_range, "a cut rule for a counter", sink_);
      return false;
    }
    if (cut.axes.size() == 1 && cut.axes[0].text == "pp") return true;
    RefuseNotServed(cut.cut_range, "a counter cut by another axis than `pp`", sink_);
    return false;
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
