#include "runtime/job_tensors/job_target.h"

#include <fmt/format.h>

#include <set>

#include "compiler/describe/other_layout.h"
#include "compiler/planner/join.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Error JobTarget::CheckAllHeld(const Layout& layout, std::span<const LogicalTensor> tensors) const {
  const std::set<std::string> kept = KeptTensors(layout, kept_);
  std::vector<std::string> extra;
  std::size_t tensor = 0;
  for (const NotLoaded& entry : not_loaded_) {
    while (tensors[tensor].name != entry.tensor) ++tensor;
    const bool is_held = entry.states.size() < tensors[tensor].states.size();
    if (!is_held && !kept.contains(entry.tensor)) extra.push_back(entry.tensor);
  }
  if (extra.empty()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "the checkpoint holds tensor `{}`{}, and no rank has a place for it; that a part is "
              "enough has to be said (in Python, strict=False)",
              extra.front(), extra.size() == 1 ? "" : fmt::format(" and {} more", extra.size() - 1));
}

llvm::Error JobTarget::LayOutHeld(const Layout& layout, std::span<const LogicalTensor> tensors) {
  UCP_RETURN_IF_ERROR(MatchJobTensors(layout, tensors, held_));
  not_loaded_ = FindNotLoaded(tensors, held_);
  if (all_tensors_) UCP_RETURN_IF_ERROR(CheckAllHeld(layout, tensors));
  UCP_ASSIGN_OR_RETURN(laid_out_, LayOutJobTensors(held_, parts_));
  laid_out_.files.remarks = CastRemarks(tensors, held_);
  return llvm::Error::success();
}

llvm::Expected<Sides> JobTarget::Meet(BoundSource source) {
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(source.layout, source.checkpoint.inventory));
  if (!layout_.empty()) return MeetInLayout(std::move(source), std::move(tensors));
  UCP_RETURN_IF_ERROR(LayOutHeld(source.layout, tensors));
  // Most loads leave nothing of the source out.
  const bool is_all_held =
      not_loaded_.empty() && source.layout.dropped.empty() && source.layout.tensors.size() == tensors.size();
  if (!is_all_held) {
    source = KeepStates(HeldStates(held_), std::move(source));
    UCP_ASSIGN_OR_RETURN(tensors, JoinTensors(source.layout, source.checkpoint.inventory));
  }
  return Sides{std::move(source), std::move(laid_out_.layout), std::move(tensors)};
}

llvm::Expected<Sides> JobTarget::MeetInLayout(BoundSource source, std::vector<LogicalTensor> tensors) {
  std::vector<std::string> remarks;
  UCP_ASSIGN_OR_RETURN(OtherLayout other, SeeInLayout(source, tensors, layout_, std::nullopt, remarks));
  if (llvm::Error error = LayOutHeld(other.layout, other.tensors)) {
    const FailureText failure = TakeFailure(std::move(error));
    return Fail(failure.code, "in the layout `{}`: {}", layout_, failure.message);
  }
  remarks.insert(remarks.end(), laid_out_.files.remarks.begin(), laid_out_.files.remarks.end());
  laid_out_.files.remarks = std::move(remarks);
  if (!not_loaded_.empty() || source.layout.tensors.size() != tensors.size()) {
    UCP_ASSIGN_OR_RETURN(const StatesOfTensors wanted, SourceStates(HeldStates(held_), other));
    source = KeepStates(wanted, std::move(source));
    UCP_ASSIGN_OR_RETURN(tensors, JoinTensors(source.layout, source.checkpoint.inventory));
  }
  other.layout = std::move(laid_out_.layout);
  UCP_ASSIGN_OR_RETURN(Layout whole, AtomicLayout(source.layout));
  return Sides{std::move(source), std::move(whole), std::move(tensors), std::move(other)};
}

llvm::Expected<TargetFiles> JobTarget::LayOut(const Sides& sides) {
  if (sides.other) UCP_RETURN_IF_ERROR(FillPieces(*sides.other, laid_out_.files));
  return std::move(laid_out_.files);
}

}  // namespace ucp
