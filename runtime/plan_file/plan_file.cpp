#include "runtime/plan_file/plan_file.h"

#include <fmt/format.h>

#include <map>

#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "compiler/verifier/verifier.h"
#include "runtime/plan_file/ready_made_pickles.h"

namespace ucp {

llvm::Expected<PlanWithInputs> ReadPlanFile(ReadableFileSystem& files, const std::string& path) {
  constexpr std::uint64_t kLargestPlan = std::uint64_t{1} << 31;
  UCP_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(files, path, kLargestPlan));
  auto file = DecodePlanWithInputs(bytes);
  if (!file) return AddContext(file.takeError(), fmt::format("`{}`", path));
  if (llvm::Error error = VerifyPlan(file->plan)) return AddContext(std::move(error), fmt::format("`{}`", path));
  const std::vector<std::string> keep = file->inputs ? file->inputs->keep_opaque : std::vector<std::string>();
  if (llvm::Error error = CheckReadyMadePickles(file->plan, keep)) {
    return AddContext(std::move(error), fmt::format("`{}`", path));
  }
  return file;
}

llvm::Error CheckIsOfCheckpoint(const std::string& path, const PlanWithInputs& file) {
  if (!file.inputs || file.inputs->source_strategy.empty()) return llvm::Error::success();
  return Fail(
      ErrorCode::kBadData,
      "`{}` was made without a checkpoint, from the strategy `{}`; make a plan of the checkpoint with `ucpc plan "
      "{} DIR`",
      path, file.inputs->source_strategy, OptionName(UserOption::kFrom));
}

llvm::Error CheckIdentity(const Plan& plan, const Inventory& inventory) {
  std::map<std::string, const StoredFile*> found;
  for (const StoredFile& file : inventory.storage.files) found[file.path] = &file;
  for (const StoredFile& file : plan.source.files) {
    auto same = found.find(file.path);
    if (same == found.end()) {
      return Fail(ErrorCode::kBadData, "the plan reads `{}`, which `{}` does not have", file.path, inventory.root);
    }
    if (same->second->bytes != file.bytes) {
      return Fail(ErrorCode::kBadData, "`{}` has {} bytes, and had {} when the plan was made; make the plan again",
                  file.path, same->second->bytes, file.bytes);
    }
    if (same->second->header_hash != file.header_hash) {
      return Fail(ErrorCode::kBadData,
                  "the header of `{}` is not the one that the plan was made from; make the plan again", file.path);
    }
  }
  return llvm::Error::success();
}

}  // namespace ucp
