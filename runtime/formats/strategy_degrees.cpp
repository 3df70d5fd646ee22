#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/spelling.h"
#include "runtime/formats/strategy.h"

namespace ucp {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;  // On one axis, or layers of one stage.

std::optional<std::int64_t> ParseCount(std::string_view text, std::int64_t least) {
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number < least || number > kMostRanks) return std::nullopt;
  return number;
}

llvm::Error SetAxis(const std::string& axis, std::string_view text, Degrees& degrees) {
  auto size = ParseCount(text, 1);
  if (!size) {
    return Fail(ErrorCode::kUsage, "`{}={}` in the strategy is not a number of ranks from 1 to {}", axis, text,
                kMostRanks);
  }
  degrees.mesh.axes.push_back({axis, *size});
  return llvm::Error::success();
}

// "8+8+8+6": one number for each place of the pipeline.
llvm::Error SetStages(std::string_view text, Degrees& degrees) {
  std::string_view rest = text;
  while (true) {
    const std::size_t plus = rest.find('+');
    auto layers = ParseCount(rest.substr(0, plus), 0);
    if (!layers) {
      return Fail(ErrorCode::kUsage, "`pp={}` in the strategy is not a list of how many layers each stage has", text);
    }
    degrees.stage_layers.push_back(*layers);
    if (plus == std::string_view::npos) break;
    rest.remove_prefix(plus + 1);
  }
  const std::int64_t places = std::ssize(degrees.stage_layers);
  if (places % degrees.interleave != 0) {
    return Fail(
        ErrorCode::kUsage,
        "`pp={}` in the strategy has the layers of {} chunks, which do not divide over stages of {} chunks each", text,
        places, degrees.interleave);
  }
  degrees.mesh.axes.push_back({"pp", places / degrees.interleave});
  return llvm::Error::success();
}

llvm::Error UnknownKey(const Strategy& strategy, const std::string& key, std::span<const std::string> known) {
  std::vector<std::string> words = KnownAxes();
  words.emplace_back("interleave");
  words.insert(words.end(), known.begin(), known.end());
  auto nearest = NearestWord(key, words);
  return Fail(ErrorCode::kUsage, "a strategy of the format `{}` has no setting `{}`{}; it has {}", strategy.format, key,
              nearest ? fmt::format(" (did you mean `{}`?)", *nearest) : "", fmt::join(words, ", "));
}

}  // namespace

llvm::Expected<StrategyDegrees> ParseDegrees(const Strategy& strategy, std::span<const std::string> known) {
  StrategyDegrees parsed;
  Degrees& degrees = parsed.degrees;
  if (auto chunks = strategy.options.find("interleave"); chunks != strategy.options.end()) {
    auto number = ParseCount(chunks->second, 1);
    if (!number) {
      return Fail(ErrorCode::kUsage, "`interleave={}` in the strategy is not a number of chunks", chunks->second);
    }
    degrees.interleave = *number;
  }
  for (const std::string& axis : KnownAxes()) {
    auto option = strategy.options.find(axis);
    if (option == strategy.options.end()) continue;
    const bool layers = axis == "pp" && option->second.find('+') != std::string::npos;
    UCP_RETURN_IF_ERROR(layers ? SetStages(option->second, degrees) : SetAxis(axis, option->second, degrees));
  }
  for (const auto& [key, value] : strategy.options) {
    if (key == "interleave" || IsKnownAxis(key)) continue;
    if (std::find(known.begin(), known.end(), key) == known.end()) return UnknownKey(strategy, key, known);
    parsed.options[key] = value;
  }
  return parsed;
}

}  // namespace ucp
