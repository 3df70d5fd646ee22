#include "runtime/job_tensors/job_target.h"

#include <fmt/format.h>

#include <set>

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

llvm::Expected<Sides> JobTarget::Meet(BoundSource source) {
  UCP_ASSIGN_OR_RETURN(std::vector<LogicalTensor> tensors, JoinTensors(source.layout, source.checkpoint.inventory));
  UCP_RETURN_IF_ERROR(MatchJobTensors(source.layout, tensors, held_));
  not_loaded_ = FindNotLoaded(tensors, held_);
  if (all_tensors_) UCP_RETURN_IF_ERROR(CheckAllHeld(source.layout, tensors));
  UCP_ASSIGN_OR_RETURN(laid_out_, LayOutJobTensors(held_, parts_));
  laid_out_.files.remarks = CastRemarks(tensors, held_);
  // Most loads leave nothing of the source out.
  const bool is_all_held =
      not_loaded_.empty() && source.layout.dropped.empty() && source.layout.tensors.size() == tensors.size();
  if (!is_all_held) {
    source = KeepHeld(held_, std::move(source));
    UCP_ASSIGN_OR_RETURN(tensors, JoinTensors(source.layout, source.checkpoint.inventory));
  }
  return Sides{std::move(source), std::move(laid_out_.layout), std::move(tensors)};
}

llvm::Expected<TargetFiles> JobTarget::LayOut(const Sides& /*sides*/) { return std::move(laid_out_.files); }

}  // namespace ucp
