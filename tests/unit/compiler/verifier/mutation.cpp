#include "tests/unit/compiler/verifier/mutation.h"

#include <algorithm>
#include <map>

#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"

namespace ucp::oracle {
namespace {

// A record may say that it has more bytes than anyone would read, a set that it ends with endless padding; the oracle
// keeps every place.
bool IsTooLarge(const Plan& plan) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  auto is_long = [](const Record& record) { return record.bytes > static_cast<std::uint64_t>(kMost); };
  return std::any_of(plan.source.records.begin(), plan.source.records.end(), is_long) ||
         std::any_of(plan.target.records.begin(), plan.target.records.end(), is_long) ||
         std::any_of(plan.sets.begin(), plan.sets.end(),
                     [](const ProductSet& set) { return set.local_elements() > kMost; });
}

// The oracle counts a record's places in elements, so it cannot follow a record that has two types.
bool HasARecordOfTwoTypes(const StorageTables& tables) {
  std::map<RecordId, std::int64_t> item_bytes;
  for (const Buffer& buffer : tables.buffers) {
    for (const BufferPart& part : buffer.parts) {
      std::int64_t bytes = ItemBytes(buffer.dtype);
      if (item_bytes.try_emplace(part.record, bytes).first->second != bytes) return true;
    }
  }
  return false;
}

}  // namespace

std::string WronglyAccepted(const Plan& plan, bool& refused) {
  llvm::Error error = VerifyPlan(plan);
  refused = static_cast<bool>(error);
  if (refused) {
    std::string message = TakeFailure(std::move(error)).message;
    return message.starts_with("the plan is not sound: ") ? "" : "refused without a reason: " + message;
  }
  if (IsTooLarge(plan) || HasARecordOfTwoTypes(plan.source) || HasARecordOfTwoTypes(plan.target)) return "";
  // A difference in a replica is found when it is compared; the copies must be right by themselves.
  Plan copies = plan;
  std::erase_if(copies.reads, [](const PlanRead& read) { return read.role != ReadRole::kCopy; });
  if (std::string flaw = FlawOfCasts(plan); !flaw.empty()) return flaw;
  std::optional<Memory> source = SourceAsThePlanSays(copies);
  std::optional<Memory> target = TargetAsThePlanSays(copies);
  // Strided tensors may lie within each other; whether they do is not proved.
  bool is_strided =
      std::any_of(copies.reads.begin(), copies.reads.end(), [](const PlanRead& read) { return !read.strides.empty(); });
  if (!source && is_strided) return "";
  if (!source) return "two elements stand in one place of the source";
  if (!target) return "two elements stand in one place of the target";
  Outcome outcome = Execute(copies, *source);
  return outcome.problem.empty() ? Difference(plan.target, *target, outcome.target) : outcome.problem;
}

}  // namespace ucp::oracle
