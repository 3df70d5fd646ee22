#include "runtime/convert/plan_file.h"

#include <fmt/format.h>

#include <map>

#include "compiler/plan/codec.h"
#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"

namespace ucp {

llvm::Expected<Plan> ReadPlanFile(FileSystem& files, const std::string& path) {
  constexpr std::uint64_t kLargestPlan = std::uint64_t{1} << 31;
  UCP_ASSIGN_OR_RETURN(std::string bytes, ReadWholeFile(files, path, kLargestPlan));
  auto plan = DecodePlan(bytes);
  if (!plan) return AddContext(plan.takeError(), fmt::format("`{}`", path));
  if (llvm::Error error = VerifyPlan(*plan)) return AddContext(std::move(error), fmt::format("`{}`", path));
  return plan;
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
