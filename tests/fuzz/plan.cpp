// A plan file. A plan that the verifier passes stays inside its folders and files, whoever made it.
#include "compiler/plan/codec.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"
#include "tests/fuzz/target.h"

namespace {

void CheckInside(const ucp::StorageTables& tables) {
  for (const ucp::StoredFile& file : tables.files) {
    UCP_CHECK(!file.path.empty() && file.path.front() != '/', "path `{}`", file.path);
    UCP_CHECK(("/" + file.path + "/").find("/../") == std::string::npos, "path `{}`", file.path);
  }
  for (const ucp::Record& record : tables.records) {
    const ucp::StoredFile& file = tables.files[record.file.index()];
    UCP_CHECK(record.begin <= file.bytes && record.bytes <= file.bytes - record.begin, "a record outside of `{}`",
              file.path);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto plan = ucp::DecodePlan(ucp::fuzz::Text(data, size));
  if (!plan) {
    UCP_CHECK(!ucp::TakeFailure(plan.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  if (llvm::Error error = ucp::VerifyPlan(*plan)) {
    UCP_CHECK(!ucp::TakeFailure(std::move(error)).message.empty(), "refused without a reason");
    return 0;
  }
  CheckInside(plan->source);
  CheckInside(plan->target);
  return 0;
}
