#include "compiler/formats/deepspeed/native/write/companions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/formats/archive_composer.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {

namespace {

// Loops that train find their checkpoints by the names that they give them.
void RemarkOnTag(const TargetRequest& request, TargetFiles& target) {
  const std::string& tag = request.training.tag;
  const bool is_trainers = std::any_of(request.companions.begin(), request.companions.end(),
                                       [](const auto& file) { return file.name == "trainer_state.json"; });
  if (is_trainers && !tag.starts_with("global_step")) {
    target.remarks.push_back(
        fmt::format("Hugging Face's Trainer looks for `global_step…`, and would not find the tag `{}`", tag));
  }
  const bool is_lightnings =
      std::any_of(request.training.ranks.begin(), request.training.ranks.end(),
                  [](const RankState& rank) { return FindEntry(rank.client, "pytorch-lightning_version") != nullptr; });
  if (is_lightnings && tag != "checkpoint") {
    target.remarks.push_back(
        fmt::format("Lightning looks for the tag `checkpoint`, and would not find the tag `{}`", tag));
  }
}

}  // namespace

llvm::Error AddCompanions(const TargetRequest& request, const WriteOptions& options, TargetFiles& target) {
  const std::int64_t ranks = options.mp() * options.dp;
  const std::string& tag = request.training.tag;
  std::vector<std::string> dropped;
  std::int64_t kept = 0;
  for (const CompanionFile& file : request.companions) {
    if (file.name == tag) {
      return Fail(ErrorCode::kUsage,
                  "the tag `{}` is also the name of a file beside the checkpoint; choose another "
                  "with {}",
                  tag, OptionName(UserOption::kTag));
    }
    if (std::optional<std::int64_t> rank = RankOfCompanion(file.name)) {
      if (*rank >= ranks) {
        dropped.push_back("`" + file.name + "`");
        continue;
      }
      ++kept;
    }
    AddFile(target, file.name, file.content);
  }
  if (!dropped.empty()) {
    target.remarks.push_back(fmt::format("{} dropped: the target has {}", fmt::join(dropped, ", "),
                                         Counted(static_cast<std::uint64_t>(ranks), "rank")));
  } else if (kept > 0 && kept < ranks) {
    target.remarks.push_back(fmt::format(
        "{} of the target's {} ranks have states of random generators; the others begin with new ones", kept, ranks));
  }
  RemarkOnTag(request, target);
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
