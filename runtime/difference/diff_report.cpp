#include "runtime/difference/diff_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/json_text.h"
#include "compiler/support/units.h"
#include "runtime/elements/element_text.h"

namespace ucp {
namespace {

// The names of it on the two sides, and its types there.
bool AreAlike(const StatePair& pair) {
  return pair.a->name == pair.b->name && pair.a->range.dtype == pair.b->range.dtype;
}

bool IsCast(const StateOutcome& state) { return state.pair.cast != DeclaredCast::kNone; }

bool Differs(const StateOutcome& state) {
  const auto& [a, b] = std::pair(state.pair.a, state.pair.b);
  if (!HasBoth(state.pair)) return !state.pair.is_beyond_weights;
  if (IsCast(state)) return state.difference.not_cast > 0;
  return a->range.dtype != b->range.dtype || state.difference.elements > 0;
}

std::uint64_t ElementsOf(const WholeState& state) {
  return static_cast<std::uint64_t>(state.range.end - state.range.begin);
}

std::string TextOf(const WholeState& state) { return fmt::format("{} {}", state.name, Name(state.range.dtype)); }

std::string TextOf(const WholeTensor& tensor) {
  std::string text = fmt::format("{} [{}]", tensor.name, fmt::join(tensor.shape, ", "));
  for (const WholeState& state : tensor.states) {
    text += fmt::format("{} {}", &state == &tensor.states.front() ? "" : ",", TextOf(state));
  }
  return text;
}

double NormOf(double squares) { return std::sqrt(squares); }

// The largest difference if there is one in numbers, else the first element that differs.
const ElementPair& ShownPair(const Difference& difference) {
  return difference.at_largest.place >= 0 ? difference.at_largest : difference.first;
}

std::string NumbersText(const Difference& difference, std::uint64_t elements, const std::vector<std::int64_t>& shape) {
  std::string text = fmt::format("{} of {} differ", WithThousands(difference.elements), Counted(elements, "element"));
  if (difference.not_finite > 0) {
    text += fmt::format(", {} of them by no finite number", WithThousands(difference.not_finite));
  }
  if (difference.not_finite < difference.elements) {
    text += fmt::format("; norm of the difference {:.6g}", NormOf(difference.squares));
    if (difference.squares_of_a > 0) {
      text += fmt::format(", {:.3g} of the first's", NormOf(difference.squares) / NormOf(difference.squares_of_a));
    }
  }
  const std::string where = fmt::format("[{}]", fmt::join(IndexOf(ShownPair(difference).place, shape), ", "));
  const bool has_largest = difference.at_largest.place >= 0;
  return text + (has_largest ? fmt::format("; largest {:.6g} at {}", difference.largest, where)
                             : fmt::format("; the first at {}", where));
}

// "; 3 are not the first, cast to bfloat16"
std::string CastText(const StateOutcome& state) {
  if (!IsCast(state)) return "";
  const bool is_of_b = state.pair.cast == DeclaredCast::kOfB;
  return fmt::format("; {} {} not the {}, cast to {}", WithThousands(state.difference.not_cast),
                     state.difference.not_cast == 1 ? "is" : "are", is_of_b ? "first" : "second",
                     Name((is_of_b ? state.pair.b : state.pair.a)->range.dtype));
}

void AddLines(const StateOutcome& state, const std::vector<std::int64_t>& shape, std::vector<std::string>& lines) {
  const WholeState* const a = state.pair.a;
  const WholeState* const b = state.pair.b;
  if (!HasBoth(state.pair)) {
    lines.push_back(a != nullptr ? "-" + TextOf(*a) : "+" + TextOf(*b));
    return;
  }
  const std::string what = AreAlike(state.pair) ? TextOf(*a) : fmt::format("{} and {}", TextOf(*a), TextOf(*b));
  const Difference& difference = state.difference;
  if (difference.elements == 0) {
    lines.push_back(fmt::format(" {}: the same numbers", what));
    return;
  }
  lines.push_back(fmt::format(" {}: {}{}", what, NumbersText(difference, ElementsOf(*a), shape), CastText(state)));
  const ElementPair& shown = ShownPair(difference);
  lines.push_back("-  " + ElementText(a->range.dtype, shown.a.data()));
  lines.push_back("+  " + ElementText(b->range.dtype, shown.b.data()));
}

void AddLines(const TensorOutcome& tensor, std::vector<std::string>& lines) {
  const auto& [a, b, states] = tensor.pair;
  if (a == nullptr || b == nullptr || a->shape != b->shape) {
    if (a != nullptr) lines.push_back("-" + TextOf(*a));
    if (b != nullptr) lines.push_back("+" + TextOf(*b));
    return;
  }
  lines.push_back(fmt::format("@@ {} [{}] @@", a->name, fmt::join(a->shape, ", ")));
  for (const StateOutcome& state : tensor.states) {
    if (Differs(state)) AddLines(state, a->shape, lines);
  }
}

bool IsSameByDigest(const TensorOutcome& tensor) {
  return std::all_of(tensor.states.begin(), tensor.states.end(),
                     [](const StateOutcome& state) { return state.is_same_by_digest; });
}

struct Counts {
  std::uint64_t differ = 0;
  std::uint64_t equal_by_cast = 0;
  std::uint64_t only_in_a = 0;
  std::uint64_t only_in_b = 0;
  std::uint64_t same = 0;
  std::uint64_t not_read = 0;        // Of those.
  std::uint64_t beyond_weights = 0;  // States that one side has, and the other, of weights alone, has not.
};

// Where the two sides have the same but for a cast.
bool IsEqualByCast(const TensorOutcome& tensor) {
  return !Differs(tensor) && std::any_of(tensor.states.begin(), tensor.states.end(), &IsCast);
}

Counts CountsOf(const DiffReport& report) {
  Counts counts;
  for (const TensorOutcome& tensor : report.tensors) {
    counts.beyond_weights += static_cast<std::uint64_t>(
        std::ranges::count_if(tensor.states, [](const auto& state) { return state.pair.is_beyond_weights; }));
    const bool has_both = tensor.pair.a != nullptr && tensor.pair.b != nullptr;
    if (Differs(tensor) && !has_both) {
      ++(tensor.pair.a != nullptr ? counts.only_in_a : counts.only_in_b);
    } else if (Differs(tensor)) {
      ++counts.differ;
    } else if (IsEqualByCast(tensor)) {
      ++counts.equal_by_cast;
    } else if (has_both) {
      ++counts.same;
      if (IsSameByDigest(tensor)) ++counts.not_read;
    }
  }
  return counts;
}

std::string SummaryLine(const DiffReport& report) {
  const Counts counts = CountsOf(report);
  auto are = [](std::uint64_t number) {
    return fmt::format("{} {}", WithThousands(number), number == 1 ? "is" : "are");
  };
  std::string text = fmt::format("{} {}", Counted(counts.differ, "tensor"), counts.differ == 1 ? "differs" : "differ");
  if (counts.only_in_a > 0) text += fmt::format(", {} only in {}", are(counts.only_in_a), report.a);
  if (counts.only_in_b > 0) text += fmt::format(", {} only in {}", are(counts.only_in_b), report.b);
  if (counts.equal_by_cast > 0) text += fmt::format(", {} equal by declared cast", are(counts.equal_by_cast));
  text += fmt::format(", {} the same", are(counts.same));
  if (counts.not_read > 0)
    text += fmt::format(" ({} by the digests of both manifests)", WithThousands(counts.not_read));
  if (counts.beyond_weights > 0) {
    text += fmt::format("; one side holds weights alone, and has not {} of the other",
                        Counted(counts.beyond_weights, "state"));
  }
  return text;
}

// JSON has no infinities.
llvm::json::Value NumberJson(double number) {
  return std::isfinite(number) ? llvm::json::Value(number) : llvm::json::Value(nullptr);
}

llvm::json::Object PairJson(const ElementPair& pair, const StatePair& states, const std::vector<std::int64_t>& shape) {
  return llvm::json::Object{{"at", llvm::json::Array(IndexOf(pair.place, shape))},
                            {"a", ElementText(states.a->range.dtype, pair.a.data())},
                            {"b", ElementText(states.b->range.dtype, pair.b.data())}};
}

llvm::json::Object SideJson(const WholeState& state) {
  return llvm::json::Object{{"state", state.name}, {"dtype", std::string(Name(state.range.dtype))}};
}

llvm::json::Object StateJson(const StateOutcome& state, const std::vector<std::int64_t>& shape) {
  const WholeState* const a = state.pair.a;
  const WholeState* const b = state.pair.b;
  llvm::json::Object json;
  if (a != nullptr) json["a"] = SideJson(*a);
  if (b != nullptr) json["b"] = SideJson(*b);
  if (!HasBoth(state.pair)) return json;
  const Difference& difference = state.difference;
  json["elements"] = ElementsOf(*a);
  json["differ"] = difference.elements;
  if (IsCast(state)) json["not_cast"] = difference.not_cast;
  if (difference.elements == 0) return json;
  json["not_finite"] = difference.not_finite;
  json["norm"] = NumberJson(NormOf(difference.squares));
  json["norm_of_a"] = NumberJson(NormOf(difference.squares_of_a));
  json["first"] = PairJson(difference.first, state.pair, shape);
  if (difference.at_largest.place < 0) return json;
  llvm::json::Object largest = PairJson(difference.at_largest, state.pair, shape);
  largest["difference"] = NumberJson(difference.largest);
  json["largest"] = std::move(largest);
  return json;
}

// Of what is equal by cast the numbers are not the same, either.
bool IsTold(const StateOutcome& state) { return Differs(state) || IsCast(state); }

llvm::json::Object TensorJson(const TensorOutcome& tensor) {
  const auto& [a, b, pairs] = tensor.pair;
  llvm::json::Object json{{"name", a != nullptr ? a->name : b->name}};
  if (a != nullptr) json["shape_a"] = llvm::json::Array(a->shape);
  if (b != nullptr) json["shape_b"] = llvm::json::Array(b->shape);
  llvm::json::Array states;
  for (const StateOutcome& state : tensor.states) {
    if (a != nullptr && b != nullptr && IsTold(state)) states.push_back(StateJson(state, a->shape));
  }
  json["states"] = std::move(states);
  return json;
}

}  // namespace

bool Differs(const TensorOutcome& tensor) {
  const auto& [a, b, pairs] = tensor.pair;
  if (a != nullptr && b != nullptr && a->shape != b->shape) return true;
  return std::any_of(tensor.states.begin(), tensor.states.end(),
                     [](const StateOutcome& state) { return Differs(state); });
}

bool Differs(const DiffReport& report) {
  return !report.settings.empty() || std::any_of(report.tensors.begin(), report.tensors.end(),
                                                 [](const TensorOutcome& tensor) { return Differs(tensor); });
}

std::vector<std::string> DiffLines(const DiffReport& report) {
  std::vector<std::string> lines;
  const char* label = "first";
  for (const CheckpointIdentity& read : report.read) {
    for (std::string& line : IdentityLines(read, std::exchange(label, "second"))) lines.push_back(std::move(line));
  }
  if (Differs(report)) lines.insert(lines.end(), {"--- " + report.a, "+++ " + report.b});
  for (const TensorOutcome& tensor : report.tensors) {
    if (Differs(tensor)) AddLines(tensor, lines);
  }
  lines.insert(lines.end(), report.settings.begin(), report.settings.end());
  lines.push_back(SummaryLine(report));
  return lines;
}

void WriteDiff(const DiffReport& report, llvm::json::OStream& json) {
  const Counts counts = CountsOf(report);
  json.object([&] {
    json.attribute("a", report.a);
    json.attributeArray("checkpoints", [&] {
      for (const CheckpointIdentity& read : report.read) json.value(IdentityJson(read));
    });
    json.attribute("b", report.b);
    json.attribute("differ", counts.differ);
    json.attribute("equal_by_cast", counts.equal_by_cast);
    json.attribute("only_in_a", counts.only_in_a);
    json.attribute("only_in_b", counts.only_in_b);
    json.attribute("same", counts.same);
    json.attribute("same_by_digest", counts.not_read);
    json.attributeArray("settings", [&] {
      for (const std::string& sentence : report.settings) json.value(sentence);
    });
    json.attribute("states_beyond_weights", counts.beyond_weights);
    json.attributeArray("tensors", [&] {
      for (const TensorOutcome& tensor : report.tensors) {
        if (Differs(tensor) || IsEqualByCast(tensor)) json.value(TensorJson(tensor));
      }
    });
    json.attribute("version", kJsonVersion);
  });
}

}  // namespace ucp
