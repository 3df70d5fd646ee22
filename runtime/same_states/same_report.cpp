#include "runtime/same_states/same_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "compiler/support/units.h"

namespace ucp {
namespace {

constexpr const char* kByElements = "compared element by element";

// "15 of float32 to bfloat16"
std::vector<std::string> CastTexts(const SameStates& same) {
  std::map<std::string, std::uint64_t> casts;
  for (const CastState& cast : same.cast) {
    ++casts[fmt::format("{} to {}", Name(cast.from_dtype), Name(cast.to_dtype))];
  }
  std::vector<std::string> texts;
  for (const auto& [cast, number] : casts) texts.push_back(fmt::format("{} of {}", WithThousands(number), cast));
  return texts;
}

std::string Verdict(const SameStates& same) {
  if (!same.differences.empty()) return "not the same";
  const std::string how = same.by_elements ? kByElements : "by their digests";
  if (same.cast.empty()) return fmt::format("bit for bit the same, {}", how);
  std::string text = fmt::format("equal by declared cast: {}, {}", fmt::join(CastTexts(same), ", "), kByElements);
  if (same.same > 0) text += fmt::format("; {} bit for bit the same, {}", WithThousands(same.same), how);
  return text;
}

std::string_view ResultName(const SameStates& same) {
  if (!same.differences.empty()) return "different";
  return same.cast.empty() ? "same" : "cast";
}

}  // namespace

std::vector<std::string> SameLines(const SameStates& same, const std::string& b, std::uint64_t states) {
  std::vector<std::string> lines = {fmt::format("same      {} in {}: {}", Counted(states, "state"), b, Verdict(same))};
  if (same.beyond_weights.empty()) return lines;
  std::map<std::string, std::uint64_t> numbers;
  for (const StateName& state : same.beyond_weights) ++numbers[state.state];
  std::vector<std::string> texts;
  for (const auto& [state, number] : numbers) texts.push_back(fmt::format("{} of {}", WithThousands(number), state));
  lines.push_back(fmt::format("          not compared, since the other holds weights alone: {} in {}",
                              fmt::join(texts, ", "), same.has_beyond_weights));
  return lines;
}

llvm::json::Object SameJson(const SameStates& same) {
  llvm::json::Array cast;
  for (const CastState& state : same.cast) {
    cast.push_back(llvm::json::Object{{"tensor", state.tensor},
                                      {"from", state.from},
                                      {"from_dtype", std::string(Name(state.from_dtype))},
                                      {"to", state.to},
                                      {"to_dtype", std::string(Name(state.to_dtype))}});
  }
  llvm::json::Array beyond;
  for (const StateName& state : same.beyond_weights) {
    beyond.push_back(llvm::json::Object{{"tensor", state.tensor}, {"state", state.state}});
  }
  return llvm::json::Object{{"result", std::string(ResultName(same))},
                            {"compared", same.by_elements ? "elements" : "digests"},
                            {"states_the_same", same.same},
                            {"states_cast", std::move(cast)},
                            {"states_beyond_weights", std::move(beyond)}};
}

}  // namespace ucp
