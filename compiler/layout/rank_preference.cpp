#include "compiler/layout/rank_preference.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

llvm::Error AddPlace(Coordinate& named, std::string_view text, std::string_view whole) {
  const std::size_t equals = text.find('=');
  const std::string axis(text.substr(0, equals));
  const std::string_view number = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  std::int64_t place = 0;
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), place);
  const bool is_number = error == std::errc() && end == number.data() + number.size() && place >= 0;
  if ((axis != "mp" && !IsKnownAxis(axis)) || !is_number) {
    return Fail(ErrorCode::kUsage, "{} takes places on the source's axes, such as dp=0,tp=1, not `{}`",
                OptionName(UserOption::kPreferRank), whole);
  }
  if (named.at.emplace(axis, place).second) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "{} `{}` names two places on `{}`", OptionName(UserOption::kPreferRank), whole, axis);
}

// "dp=0,tp=1", as it is typed.
std::string PlacesText(const Coordinate& places) {
  std::string text;
  for (const auto& [axis, index] : places.at) text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis, index);
  return text;
}

}  // namespace

bool RankPreference::Prefers(const Coordinate& place) const {
  bool is_named = false;
  for (const auto& [axis, index] : place.at) {
    auto found = named.at.find(axis);
    if (found == named.at.end()) continue;
    if (found->second != index) return false;
    is_named = true;
  }
  return is_named;
}

std::size_t RankPreference::FirstOf(const std::vector<Coordinate>& places) const {
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (Prefers(places[i])) return i;
  }
  return 0;
}

llvm::Expected<RankPreference> ParseRankPreference(std::string_view text) {
  RankPreference preference;
  if (text.empty()) return preference;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    UCP_RETURN_IF_ERROR(AddPlace(preference.named, rest.substr(0, comma), text));
    if (comma == std::string_view::npos) return preference;
    rest.remove_prefix(comma + 1);
  }
}

llvm::Error CheckPreference(const RankPreference& preference, const Mesh& source) {
  for (const auto& [axis, place] : preference.named.at) {
    if (place < source.Size(axis)) continue;
    const std::string degrees = source.axes.empty() ? "one rank" : "the degrees " + ToString(source);
    return Fail(ErrorCode::kUsage, "{} names {}={}, and the source has {}", OptionName(UserOption::kPreferRank), axis,
                place, degrees);
  }
  return llvm::Error::success();
}

std::string PreferenceHint(const Coordinate& a, const Coordinate& b) {
  Coordinate first, second;
  for (const auto& [axis, index] : a.at) {
    auto other = b.at.find(axis);
    if (other == b.at.end() || other->second == index) continue;
    first.at[axis] = index;
    second.at[axis] = other->second;
  }
  if (first.at.empty()) return "";
  return fmt::format("{} (or {}) says which of them counts", OptionName(UserOption::kPreferRank, PlacesText(first)),
                     PlacesText(second));
}

std::vector<std::string> DecisionNotes(const RankPreference& preference, const std::vector<RankDecision>& decisions) {
  std::vector<std::string> notes;
  for (const RankDecision& decision : decisions) {
    const std::string more =
        decision.elements > 1 ? fmt::format(" ({} differ)", Counted(decision.elements, "element")) : std::string();
    notes.push_back(fmt::format("{}: {} is {} in `{}`, which is believed, and {} in `{}`{}",
                                OptionName(UserOption::kPreferRank, PlacesText(preference.named)), decision.what,
                                decision.believed, decision.believed_file, decision.overruled, decision.overruled_file,
                                more));
  }
  return notes;
}

}  // namespace ucp
