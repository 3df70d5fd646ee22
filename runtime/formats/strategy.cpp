#include "runtime/formats/strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/spelling.h"
#include "runtime/formats/format.h"

namespace ucp {
namespace {

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const auto& format : AllFormats()) names.emplace_back(format->name());
  return names;
}

llvm::Error AddOption(Strategy& strategy, std::string_view text, std::string_view whole) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    return Fail(ErrorCode::kUsage, "`{}` in the strategy `{}` is not of the form key=value", text, whole);
  }
  auto [entry, added] = strategy.options.emplace(text.substr(0, equals), text.substr(equals + 1));
  if (added) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "the strategy `{}` gives `{}` twice", whole, entry->first);
}

}  // namespace

llvm::Expected<Strategy> ParseStrategy(std::string_view text) {
  const std::size_t colon = text.find(':');
  Strategy strategy;
  strategy.format = text.substr(0, colon);
  if (FindFormat(strategy.format) == nullptr) {
    std::vector<std::string> names = FormatNames();
    auto nearest = NearestWord(strategy.format, names);
    return Fail(ErrorCode::kUsage, "there is no format `{}`{}; the formats are {}", strategy.format,
                nearest ? fmt::format(" (did you mean `{}`?)", *nearest) : "", fmt::join(names, ", "));
  }
  if (colon == std::string_view::npos) return strategy;
  std::string_view options = text.substr(colon + 1);
  while (true) {
    const std::size_t comma = options.find(',');
    UCP_RETURN_IF_ERROR(AddOption(strategy, options.substr(0, comma), text));
    if (comma == std::string_view::npos) return strategy;
    options.remove_prefix(comma + 1);
  }
}

}  // namespace ucp
