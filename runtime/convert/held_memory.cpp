#include "runtime/convert/held_memory.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "compiler/support/units.h"
#include "runtime/executor/buffers.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsMostlySanitizer = true;  // What such a process holds says nothing of ours.
#else
constexpr bool kIsMostlySanitizer = false;
#endif

// What threads take at most while they describe and plan differs from run to run, by up to a seventh. How much of it
// the system has back when the plan is there differs more: so of the next run, all of it is supposed to be held.
std::uint64_t WouldDo(std::uint64_t bytes) { return (bytes + bytes / 4) / kMiB + 1; }

// Beyond what DivideMemory() sets aside for a program.
std::uint64_t Aside(std::uint64_t held) { return held - std::min(held, kProgramBytes); }

}  // namespace

// What is held is counted as it stands, with freed memory that the system has not got back yet, and the plan's tables
// are in it and in what is set aside for them: rather too much.
llvm::Error CountHeldMemory(const Plan& plan, const FilesOfAllRanks* nodes, ExecutionOptions& execution) {
  const unsigned threads = std::max(execution.threads, 1U);
  const std::uint64_t held = kIsMostlySanitizer ? 0 : HeldMemoryBytes();
  const std::uint64_t peak = kIsMostlySanitizer ? 0 : PeakMemoryBytes();
  const std::uint64_t of_nodes = nodes == nullptr ? 0 : nodes->MemoryBytes();
  const std::uint64_t aside = Aside(held) + of_nodes;
  const std::uint64_t needed = std::max(peak, MemoryNeeded(plan, threads, aside));
  if (execution.memory_bytes >= needed) {
    execution.memory_bytes -= aside;
    return llvm::Error::success();
  }
  return Fail(
      ErrorCode::kUsage,
      "{} of memory is too little for this plan with {}: describing the source and planning took {}, and moving "
      "its elements takes {} with what is held; pass --memory={}MiB",
      HumanBytes(execution.memory_bytes), Counted(threads, "thread"), HumanBytes(peak),
      HumanBytes(MemoryNeeded(plan, threads, aside)), WouldDo(MemoryNeeded(plan, threads, Aside(peak) + of_nodes)));
}

}  // namespace ucp
