// First the rule's own numbers: the grain, the widths, the lists. Then, for each number of places that some coordinate
// has before the cut (nearly always one number), whether the rule fits it. The part of each coordinate is for
// compiler/layout/cut.h to say; here the same refusals are sentences about what the author wrote.
#include "compiler/bind/lower/lower_cut.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/bind/lower/mesh_fit.h"
#include "compiler/layout/cut.h"
#include "compiler/layout/fact_value.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

class CutLowerer {
 public:
  CutLowerer(const Formula& cut, const Values& values, std::span<const std::int64_t> counters, DiagnosticSink& sink)
      : cut_(cut), values_(values), counters_(counters), sink_(sink) {}

  std::optional<LoweredDim> Run(LoweredDim inner) {
    if (!Measure()) return std::nullopt;
    expr_ = ShapeExpr::Cut(std::move(inner.expr), cut_.axes);
    expr_.rule = cut_.rule;
    if (!FillRule(inner.logical)) return std::nullopt;
    for (std::size_t i = 0; i < inner.local.lengths.size(); ++i) {
      if (!Fits(inner.local.lengths[i], inner.local.CoordinateOf(i))) return std::nullopt;
    }
    auto local = LengthsOf(inner.local);
    if (!local) {
      Report(DiagnosticKind::kNumberOutOfRange,
             fmt::format("the {} ranks of `{}` hold too many different lengths", degree_, fmt::join(cut_.axes, ", ")));
      return std::nullopt;
    }
    return LoweredDim{std::move(expr_), inner.logical, std::move(*local)};
  }

 private:
  bool Measure() {
    std::optional<std::int64_t> degree = 1;
    for (const std::string& axis : cut_.axes) {
      axes_.push_back({axis, values_.mesh.Size(axis)});
      if (degree) degree = CheckedMultiply(*degree, axes_.back().size);
    }
    if (!degree) Report(DiagnosticKind::kNumberOutOfRange, "the ranks of these axes do not fit in 63 bits");
    degree_ = degree.value_or(0);
    return degree.has_value();
  }

  bool FillRule(std::int64_t whole) {
    if (values_.is_whole && (cut_.rule == CutRule::kWidths || cut_.rule == CutRule::kList)) return TakeAll(whole);
    switch (cut_.rule) {
      case CutRule::kEven:
      case CutRule::kChunk:
      case CutRule::kReplicate:
        return true;
      case CutRule::kSpread:
        return FillGrain();
      case CutRule::kWidths:
        return cut_.argument.kind == CutArgument::Kind::kNone ? FillFromHeader(whole) : FillWidths();
      case CutRule::kList:
        return FillLists();
    }
    UCP_UNREACHABLE();
  }

  // One rank has all of it, in order.
  bool TakeAll(std::int64_t whole) {
    expr_.rule = CutRule::kWidths;
    expr_.widths = {whole};
    return true;
  }

  bool FillGrain() {
    if (cut_.argument.kind == CutArgument::Kind::kNone) return true;
    auto grain = Evaluate(cut_.argument.numbers.front(), values_, counters_, sink_);
    if (!grain) return false;
    if (*grain == 0) Report(DiagnosticKind::kCutMismatch, "a unit of 0 places cannot be spread");
    expr_.grain = *grain;
    return *grain != 0;
  }

  // The one rule that needs a checkpoint. Over one rank there is nothing to ask.
  bool FillFromHeader(std::int64_t whole) {
    if (degree_ == 1) return TakeAll(whole);
    if (values_.widths != nullptr) {
      std::vector<std::int64_t> own(counters_.begin(), counters_.end());
      auto found = values_.widths->find({cut_.cut_range.begin, {}});
      if (found == values_.widths->end()) found = values_.widths->find({cut_.cut_range.begin, std::move(own)});
      if (found != values_.widths->end()) return TakeFound(found->second);
    }
    ReportNoWidths("there is no checkpoint to take these widths from");
    return false;
  }

  bool TakeFound(const std::vector<std::int64_t>& found) {
    if (found.empty()) return false;  // Whatever hid them has been reported.
    expr_.widths = found;
    if (std::ssize(found) == degree_) return true;
    ReportNoWidths(fmt::format("the checkpoint's headers have the widths [{}] for {} ranks of `{}`, and here are {}",
                               fmt::join(found, ", "), found.size(), fmt::join(cut_.axes, ", "), degree_));
    return false;
  }

  void ReportNoWidths(std::string message) {
    sink_.Report({.kind = DiagnosticKind::kUnknownWidths,
                  .place = cut_.cut_range,
                  .message = std::move(message),
                  .notes = {MeshNote()},
                  .hint = "write the widths: (widths [3, 3, 2])\nor the rule that they follow: (spread) or (chunk)"});
  }

  bool FillWidths() {
    if (cut_.argument.kind == CutArgument::Kind::kFact) {
      const FactValue* value = FactOf();
      if (value == nullptr || !TakeNumbers(*value, "widths", expr_.widths)) return false;
      return CountFits(expr_.widths.size(), "width");
    }
    for (const Formula& number : cut_.argument.numbers) {
      auto width = Evaluate(number, values_, counters_, sink_);
      if (!width) return false;
      expr_.widths.push_back(*width);
    }
    return CountFits(expr_.widths.size(), "width");
  }

  bool FillLists() {
    if (cut_.argument.kind == CutArgument::Kind::kFact) return FillListsFromFact();
    for (const std::vector<Formula>& list : cut_.argument.lists) {
      std::vector<std::int64_t>& positions = expr_.lists.emplace_back();
      for (const Formula& number : list) {
        auto position = Evaluate(number, values_, counters_, sink_);
        if (!position) return false;
        positions.push_back(*position);
      }
    }
    return CountFits(expr_.lists.size(), "list");
  }

  bool FillListsFromFact() {
    const FactValue* value = FactOf();
    if (value == nullptr) return false;
    const auto* lists = std::get_if<std::vector<FactValue>>(&value->value);
    if (lists == nullptr) return WrongFact(*value, "a list of positions for each rank");
    for (const FactValue& list : *lists) {
      if (!TakeNumbers(list, "positions", expr_.lists.emplace_back())) return false;
    }
    return CountFits(expr_.lists.size(), "list");
  }

  // nullptr after reporting.
  const FactValue* FactOf() {
    const CutArgument& argument = cut_.argument;
    if (!argument.position.empty()) {
      return ElementOf(argument.fact, argument.position.front(), argument.range, values_, counters_, sink_);
    }
    UCP_CHECK(values_.facts[argument.fact], "fact {} has no value", argument.fact);
    return &values_.facts[argument.fact]->value;
  }

  bool TakeNumbers(const FactValue& value, std::string_view what, std::vector<std::int64_t>& numbers) {
    const auto* list = std::get_if<std::vector<FactValue>>(&value.value);
    if (list == nullptr) return WrongFact(value, fmt::format("a list of {}", what));
    for (const FactValue& element : *list) {
      const auto* number = std::get_if<std::int64_t>(&element.value);
      if (number == nullptr || *number < 0) return WrongFact(element, fmt::format("a list of {}, 0 or more", what));
      numbers.push_back(*number);
    }
    return true;
  }

  bool WrongFact(const FactValue& value, std::string_view wanted) {
    sink_.Report({.kind = DiagnosticKind::kCutMismatch,
                  .place = cut_.argument.range,
                  .message = fmt::format("this is {}, and {} is needed here", ucp::TextOf(value), wanted),
                  .notes = NotesOf(cut_, values_)});
    return false;
  }

  bool CountFits(std::size_t count, std::string_view what) {
    if (static_cast<std::int64_t>(count) == degree_) return true;
    Report(DiagnosticKind::kCutMismatch,
           fmt::format("here {} {} {}{}, and `{}` has {} rank{}", count == 1 ? "is" : "are", count, what,
                       count == 1 ? "" : "s", fmt::join(cut_.axes, ", "), degree_, degree_ == 1 ? "" : "s"));
    return false;
  }

  bool Fits(std::int64_t places, const Coordinate& coordinate) {
    std::string where = coordinate.at.empty() ? "" : " at " + ToString(coordinate);
    places_ = cut_.operands[0].kind == Formula::Kind::kNumber
                  ? fmt::format("this cuts {} places{}", places, where)
                  : fmt::format("`{}` is {}{}", values_.spec.TextOf(cut_.operands[0].range), places, where);
    switch (expr_.rule) {
      case CutRule::kEven:
        return places % degree_ == 0 || NotDivided(" and does not divide over");
      case CutRule::kReplicate:
        if (places != 0 && (places % degree_ == 0 || degree_ % places == 0)) return true;
        return NotDivided(", which neither divides the number of ranks nor is divided by it: there are");
      case CutRule::kChunk:
      case CutRule::kSpread:
        return true;
      case CutRule::kWidths:
        return WidthsFit(places);
      case CutRule::kList:
        return ListsFit(places);
    }
    UCP_UNREACHABLE();
  }

  bool NotDivided(std::string_view how) {
    Report(DiagnosticKind::kUnevenCut,
           fmt::format("{}{} {} ranks of `{}`", places_, how, degree_, fmt::join(cut_.axes, ", ")));
    return false;
  }

  bool WidthsFit(std::int64_t places) {
    std::optional<std::int64_t> total = 0;
    for (std::int64_t width : expr_.widths) total = total ? CheckedAdd(*total, width) : total;
    if (total == places) return true;
    Report(DiagnosticKind::kCutMismatch,
           fmt::format("{}, and the widths [{}] are {} together", places_, fmt::join(expr_.widths, ", "),
                       total ? std::to_string(*total) : "more than 63 bits hold"));
    return false;
  }

  bool ListsFit(std::int64_t places) {
    std::vector<std::int64_t> listed;
    for (std::size_t rank = 0; rank < expr_.lists.size(); ++rank) {
      std::vector<std::int64_t> own = expr_.lists[rank];
      std::sort(own.begin(), own.end());
      if (!own.empty() && own.back() >= places) {
        return Listed("{}, and rank {} of `{}` lists the position {}; they are counted from 0", rank, own.back());
      }
      if (auto twice = std::adjacent_find(own.begin(), own.end()); twice != own.end()) {
        return Listed("{}, and rank {} of `{}` lists the position {} twice", rank, *twice);
      }
      listed.insert(listed.end(), own.begin(), own.end());
    }
    std::sort(listed.begin(), listed.end());
    listed.erase(std::unique(listed.begin(), listed.end()), listed.end());
    auto gap = static_cast<std::int64_t>(0);
    while (gap < std::ssize(listed) && listed[static_cast<std::size_t>(gap)] == gap) ++gap;
    if (gap == places) return true;
    Report(DiagnosticKind::kCutMismatch,
           fmt::format("{}, and no rank of `{}` lists the position {}", places_, fmt::join(cut_.axes, ", "), gap));
    return false;
  }

  bool Listed(fmt::format_string<std::string&, std::size_t&, std::string, std::int64_t&> text, std::size_t rank,
              std::int64_t position) {
    Report(DiagnosticKind::kCutMismatch,
           fmt::format(text, places_, rank, fmt::to_string(fmt::join(cut_.axes, ", ")), position));
    return false;
  }

  std::optional<LocalLengths> LengthsOf(const LocalLengths& inner) const {
    if (inner.AllSame() && DividesInto(inner.lengths.front())) {
      return LocalLengths::Same(inner.lengths.front() / degree_);
    }
    return CutLengths(inner, axes_, [&](std::int64_t places, std::int64_t index) -> std::optional<std::int64_t> {
      if (expr_.rule == CutRule::kWidths) return expr_.widths[static_cast<std::size_t>(index)];
      if (expr_.rule == CutRule::kList) return std::ssize(expr_.lists[static_cast<std::size_t>(index)]);
      auto width = WidthOf(expr_, places, degree_, index);
      UCP_CHECK(static_cast<bool>(width), "`{}` was found to fit", ToString(expr_));
      return *width;
    });
  }

  // Whether every coordinate gets equally many, which needs no table, however many ranks there are.
  bool DividesInto(std::int64_t places) const {
    if (expr_.rule == CutRule::kWidths || expr_.rule == CutRule::kList || places % degree_ != 0) return false;
    return expr_.rule != CutRule::kSpread || (places % expr_.grain == 0 && places / expr_.grain % degree_ == 0);
  }

  Note MeshNote() const { return {values_.spec.mesh->range, MeshText(values_.mesh)}; }

  void Report(DiagnosticKind kind, std::string message) {
    std::vector<Note> notes = NotesOf(cut_, values_);
    notes.push_back(MeshNote());
    sink_.Report({.kind = kind, .place = cut_.cut_range, .message = std::move(message), .notes = std::move(notes)});
  }

  const Formula& cut_;
  const Values& values_;
  std::span<const std::int64_t> counters_;
  DiagnosticSink& sink_;
  std::vector<Axis> axes_;
  std::int64_t degree_ = 1;
  ShapeExpr expr_;
  std::string places_;  // "`ffn` is 16", or "`2 * ffn@tp` is 16 at tp=1".
};

}  // namespace

std::optional<LoweredDim> LowerCut(const Formula& cut, LoweredDim inner, const Values& values,
                                   std::span<const std::int64_t> counters, DiagnosticSink& sink) {
  return CutLowerer(cut, values, counters, sink).Run(std::move(inner));
}

}  // namespace ucp
