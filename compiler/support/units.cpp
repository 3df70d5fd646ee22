#include "compiler/support/units.h"

#include <fmt/format.h>
#include <llvm/ADT/StringRef.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace ucp {

std::string HumanBytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return value < 10 ? fmt::format("{:.2f} {}", value, kUnits[unit]) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string HumanRate(double bytes_per_second) {
  return bytes_per_second < 1e7 ? fmt::format("{:.2f} MB/s", bytes_per_second / 1e6)
                                : fmt::format("{:.2f} GB/s", bytes_per_second / 1e9);
}

std::string WithThousands(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string Counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", WithThousands(number), noun, number == 1 ? "" : "s");
}

std::optional<std::uint64_t> ParseByteCount(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 10> kUnits = {{{"", 1},
                                                                                  {"B", 1},
                                                                                  {"KB", 1000},
                                                                                  {"MB", 1000'000},
                                                                                  {"GB", 1000'000'000},
                                                                                  {"TB", 1000'000'000'000},
                                                                                  {"KiB", 1ULL << 10},
                                                                                  {"MiB", 1ULL << 20},
                                                                                  {"GiB", 1ULL << 30},
                                                                                  {"TiB", 1ULL << 40}}};
  constexpr double kTooMany = 0x1p64;
  std::uint64_t whole = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error != std::errc()) return std::nullopt;
  double fraction = 0;
  if (rest != text.data() + text.size() && *rest == '.') {
    // Digits alone: an exponent would be none of a size's.
    const char* const digits = rest;
    do ++rest;
    while (rest != text.data() + text.size() && *rest >= '0' && *rest <= '9');
    if (std::from_chars(digits, rest, fraction).ptr != rest || rest - digits < 2) return std::nullopt;
  }
  const std::string_view suffix(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  for (const auto& [name, factor] : kUnits) {
    if (!llvm::StringRef(suffix).equals_insensitive(name)) continue;
    std::uint64_t bytes = 0;
    const double part = std::round(fraction * static_cast<double>(factor));
    if (__builtin_mul_overflow(whole, factor, &bytes) || static_cast<double>(bytes) + part >= kTooMany) break;
    bytes += static_cast<std::uint64_t>(part);
    return bytes == 0 ? std::nullopt : std::optional(bytes);
  }
  return std::nullopt;
}

}  // namespace ucp
