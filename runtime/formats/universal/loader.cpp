#include "runtime/formats/universal/loader.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <array>
#include <optional>
#include <string>

#include "compiler/support/error.h"

namespace ucp::universal {
namespace {

constexpr std::int64_t kMaxRanks = 16384;

using Version = std::array<int, 3>;

// Released sources from 0.14.5, the first with a stage 3 that loads such folders, to 0.19.2; 0.18.3 and 0.19.2 were
// run.
constexpr Version kReadsDicts = {0, 19, 3};

llvm::Expected<Version> ParseVersion(const std::string& text) {
  Version version = {};
  if (RE2::FullMatch(text, R"((\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?\S*)", &version[0], &version[1])) {
    RE2::PartialMatch(text, R"(^\d+\.\d+\.(\d{1,6}))", &version[2]);
    return version;
  }
  return Fail(ErrorCode::kUsage, "`engine={}` is not a version of DeepSpeed, such as 0.18.9", text);
}

llvm::Expected<std::int64_t> ParseNumber(const std::string& key, const std::string& text, std::int64_t most,
                                         const char* what) {
  std::int64_t number = 0;
  if (RE2::FullMatch(text, R"((\d{1,9}))", &number) && number >= 1 && number <= most) return number;
  return Fail(ErrorCode::kUsage, "`{}={}` is not {} from 1 to {}", key, text, what, most);
}

}  // namespace

llvm::Expected<Loader> FindLoader(const Strategy& strategy, const TrainingState& training) {
  Loader loader{static_cast<std::int64_t>(training.ranks.size())};
  std::optional<std::int64_t> stage;
  std::optional<Version> version;
  for (const auto& [key, value] : strategy.options) {
    if (key == "mp") {
      UCP_ASSIGN_OR_RETURN(loader.ranks, ParseNumber(key, value, kMaxRanks, "a number of ranks"));
    } else if (key == "zero") {
      UCP_ASSIGN_OR_RETURN(stage, ParseNumber(key, value, 3, "a ZeRO stage"));
    } else if (key == "engine") {
      UCP_ASSIGN_OR_RETURN(version, ParseVersion(value));
    } else {
      return Fail(ErrorCode::kUsage,
                  "`universal` has no option `{}`; it has `mp`, the number of model-parallel ranks that will load it, "
                  "`zero`, their ZeRO stage, and `engine`, their version of DeepSpeed",
                  key);
    }
  }
  if (!version || *version >= kReadsDicts) return loader;
  if (!stage) {
    return Fail(ErrorCode::kUsage,
                "DeepSpeed before 0.19.3 wants another folder at ZeRO stage 3 than at stages 1 and 2: say `zero=3` or "
                "`zero=1` beside `engine`");
  }
  loader.bare_states = *stage == 3;
  if (loader.bare_states && loader.ranks > 1) {
    return Fail(ErrorCode::kUnsupported,
                "DeepSpeed before 0.19.3 does not cut tensors over tensor-parallel ranks when it loads a universal "
                "folder at ZeRO stage 3; {} model-parallel ranks would each get all of it. Say `mp=1`, or load with a "
                "newer version",
                loader.ranks);
  }
  return loader;
}

}  // namespace ucp::universal
