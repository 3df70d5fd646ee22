#include "runtime/formats/format.h"

#include <fmt/ranges.h>

#include "compiler/support/error.h"
#include "compiler/support/spelling.h"
#include "runtime/formats/deepspeed/deepspeed.h"
#include "runtime/formats/universal/universal.h"

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

std::span<const std::unique_ptr<const Format>> AllFormats() {
  static const std::vector<std::unique_ptr<const Format>> formats = [] {
    std::vector<std::unique_ptr<const Format>> list;
    list.push_back(MakeDeepSpeedFormat());
    list.push_back(MakeUniversalFormat());
    return list;
  }();
  return formats;
}

const Format* FindFormat(std::string_view name) {
  for (const auto& format : AllFormats()) {
    if (format->name() == name) return format.get();
  }
  return nullptr;
}

// A root can hold a broken checkpoint of one format and a good one of another, so an error ends nothing until all have
// been asked.
llvm::Expected<Recognised> RecogniseAny(FileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
  if (kind == PathKind::kMissing) return Fail(ErrorCode::kIo, "`{}` does not exist", path);
  std::optional<FailureText> first_failure;
  for (const auto& format : AllFormats()) {
    auto folder = format->Recognise(files, path);
    if (!folder) {
      FailureText failure = Describe(folder.takeError());
      if (!first_failure) first_failure = std::move(failure);
    } else if (*folder) {
      return Recognised{format.get(), **folder};
    }
  }
  if (first_failure) return MakeError(first_failure->code, first_failure->message);
  return Fail(ErrorCode::kUsage,
              "`{}` is no checkpoint that this version knows: a DeepSpeed folder holds `mp_rank_*_model_states.pt` and "
              "`*_optim_states.pt` (its root a file `latest`), a universal one a folder `zero` (its root a file "
              "`latest_universal`)",
              path);
}

}  // namespace ucp
