#include "compiler/support/parse_rate.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace ucp {

std::optional<double> ParseRate(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 7> kPrefixes = {
      {{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"Mi", 0x1p20}, {"Gi", 0x1p30}}};
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
      {{"b/s", 8}, {"bit/s", 8}, {"bits/s", 8}, {"bps", 8}, {"B/s", 1}}};
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number > 0) || !std::isfinite(number)) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  for (const auto& [prefix, factor] : kPrefixes) {
    if (!suffix.starts_with(prefix)) continue;
    for (const auto& [unit, bits] : kUnits) {
      if (suffix.substr(prefix.size()) == unit) return number * factor / bits;
    }
  }
  return std::nullopt;
}

}  // namespace ucp
