#include "runtime/resources/resident_memory.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"
#include "runtime/engine/buffers.h"
#include "runtime/resources/ask_for_memory.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsMostlySanitizer = true;  // The memory of such a process does not measure ours.
#else
constexpr bool kIsMostlySanitizer = false;
#endif

// The peak memory of threads while they describe and plan differs from run to run, by up to a seventh. How much of it
// the system has back when the plan is there differs more: so of the next run, all of it is supposed to be held.
std::uint64_t WouldDo(std::uint64_t bytes) { return (bytes + bytes / 4) / kMiB + 1; }

}  // namespace

// Memory is counted as it stands, with freed memory that the system has not got back yet: rather too much.
llvm::Error CountResidentMemory(const MemoryToMove& to_move, ExecutionOptions& execution) {
  // Beyond what is among `to_move`.
  auto aside = [&](std::uint64_t held) {
    return held - std::min(held, kProgramBytes + to_move.plan_bytes) + to_move.set_aside_bytes;
  };
  const std::uint64_t held = aside(kIsMostlySanitizer ? 0 : ResidentMemoryBytes());
  const std::uint64_t peak = kIsMostlySanitizer ? 0 : PeakMemoryBytes();
  if (execution.memory_bytes >= std::max(peak, to_move.bytes + held)) {
    execution.memory_bytes -= held;
    const std::uint64_t there = kProgramBytes + to_move.plan_bytes;
    const std::uint64_t more = to_move.bytes - std::min(to_move.bytes, there) + to_move.set_aside_bytes;
    return AskForMemory(more + to_move.buffer_bytes, std::max(execution.threads, 1U));
  }
  return Fail(ErrorCode::kUsage,
              "{} of memory is too little for this plan with {}: planning took {}, and moving "
              "its elements takes {} with what is held; pass {}",
              HumanBytes(execution.memory_bytes), Counted(std::max(execution.threads, 1U), "thread"), HumanBytes(peak),
              HumanBytes(to_move.bytes + held),
              OptionName(UserOption::kMemory, fmt::format("{}MiB", WouldDo(to_move.bytes + aside(peak)))));
}

llvm::Error CountResidentMemory(const Plan& plan, const FilesOfAllRanks* nodes, ExecutionOptions& execution) {
  const unsigned threads = std::max(execution.threads, 1U);
  MemoryToMove to_move{.bytes = MemoryNeeded(plan, threads),
                       .plan_bytes = PlanBytes(plan),
                       .set_aside_bytes = nodes == nullptr ? 0 : nodes->MemoryBytes()};
  if (execution.memory_bytes >= to_move.bytes) {
    UCP_ASSIGN_OR_RETURN(const BufferSizes sizes,
                         DivideMemory(plan, threads, execution.memory_bytes, execution.most_chunk_bytes));
    to_move.buffer_bytes = threads * (sizes.chunk_bytes + sizes.scratch_bytes + sizes.term_bytes);
  }
  return CountResidentMemory(to_move, execution);
}

}  // namespace ucp
