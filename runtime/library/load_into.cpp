#include "ucp/load_into.h"

#include <fmt/format.h>

#include "compiler/open/with_diagnostics.h"
#include "compiler/support/error.h"
#include "runtime/library/call.h"
#include "runtime/library/given_ranks.h"
#include "runtime/load/opened_devices.h"
#include "runtime/load_plan/compile_for_job.h"

namespace ucp {
namespace {

std::uint64_t BytesOf(const JobTensor& held) {
  auto bytes = static_cast<std::uint64_t>(ItemBytes(held.dtype));
  for (const Positions& positions : held.holds) {
    std::uint64_t length = 0;
    for (const PositionRange& range : positions) length += static_cast<std::uint64_t>(range.end - range.begin);
    bytes *= length;
  }
  return bytes;
}

llvm::Expected<JobTensor> HeldOf(const TensorToFill& tensor) {
  const std::optional<DType> dtype = DTypeFromName(tensor.dtype);
  if (!dtype) {
    return Fail(ErrorCode::kUsage, "tensor `{}` has numbers of the unknown kind `{}`; kinds are named as PyTorch's",
                tensor.tensor, tensor.dtype);
  }
  JobTensor held{tensor.tensor, tensor.state, *dtype, tensor.shape, {}};
  for (const std::vector<HeldSpan>& spans : tensor.holds) {
    Positions& positions = held.holds.emplace_back();
    for (const HeldSpan& span : spans) positions.push_back({span.begin, span.end});
  }
  if (tensor.holds.empty()) held.holds = WholeBox(tensor.shape);
  return held;
}

llvm::Expected<JobTensorsOfRank> HeldByThis(std::span<const TensorToFill> tensors) {
  JobTensorsOfRank held;
  for (const TensorToFill& tensor : tensors) {
    UCP_ASSIGN_OR_RETURN(held.emplace_back(), HeldOf(tensor));
  }
  return held;
}

// After the plan is made, when positions are known to lie in their tensors.
llvm::Expected<std::vector<WantedRecord>> Wanted(std::span<const TensorToFill> tensors, const JobTensorsOfRank& held,
                                                 const JobLoadPlan& plan, OpenedDevices& devices) {
  std::vector<WantedRecord> wanted;
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    const TensorToFill& tensor = tensors[number];
    const std::uint64_t bytes = plan.records[number] ? BytesOf(held[number]) : 0;
    if (tensor.memory.size() != bytes) {
      return Fail(ErrorCode::kUsage, "what is held of `{}` of tensor `{}` has {} bytes, and its memory {}",
                  tensor.state, tensor.tensor, bytes, tensor.memory.size());
    }
    if (!plan.records[number]) continue;
    wanted.push_back({*plan.records[number], tensor.memory});
    if (tensor.device.empty()) continue;
    UCP_ASSIGN_OR_RETURN(wanted.back().device, devices.Open(tensor.device));
  }
  return wanted;
}

JobLoadPlan PlanInto(const LoadSource& source, const JobTensorsOfRank& held, const LoadOptions& options,
                     bool all_tensors, Communicator& ranks) {
  JobLoadRequest request{Take(RequestOf(source, ranks)),
                         options.check_source ? ReplicaPolicy::kCompare : ReplicaPolicy::kTrust, all_tensors,
                         options.threads};
  OpenedSpec spec;
  request.source.opened = &spec;
  llvm::Expected<JobLoadPlan> plan = CompileForJob(RealFileSystem(), request, held, ranks);
  if (!plan) ThrowIf(WithDiagnostics(plan.takeError(), spec));
  return std::move(*plan);
}

}  // namespace

inline namespace v0 {

FillOutcome LoadInto(const LoadSource& source, std::span<const TensorToFill> tensors, const LoadSettings& settings,
                     bool all_tensors) {
  GivenRanks ranks(settings.ranks);
  const LoadOptions options = Take(LoadOptionsOf(settings, ranks));
  llvm::Expected<JobTensorsOfRank> held = HeldByThis(tensors);
  ThrowIf(Agree(ranks, held ? llvm::Error::success() : held.takeError()));
  const JobLoadPlan plan = PlanInto(source, *held, options, all_tensors, ranks);
  OpenedDevices devices;
  llvm::Expected<std::vector<WantedRecord>> wanted = Wanted(tensors, *held, plan, devices);
  ThrowIf(Agree(ranks, wanted ? llvm::Error::success() : wanted.takeError()));
  FillOutcome outcome;
  outcome.totals = TotalsOf(Take(Load(plan.load, RealFileSystem(), *wanted, options)));
  for (const NotLoaded& entry : plan.not_loaded) outcome.not_loaded[entry.tensor] = entry.states;
  outcome.step = plan.step;
  outcome.remarks = plan.load.plan.remarks;
  return outcome;
}

}  // namespace v0
}  // namespace ucp
