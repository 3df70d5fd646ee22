// The target of a load into tensors that the ranks of a job hold (job_tensors.h).
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile/compile_target.h"
#include "runtime/job_tensors/job_tensors.h"
#include "runtime/job_tensors/match_job_tensors.h"

namespace ucp {

class JobTarget final : public CompileTarget {
 public:
  // `held`: by rank. With `all_tensors`, a source with a tensor that no rank holds or keeps is refused. `parts`:
  // whether a tensor that ranks hold a part of is held whole by all of them together. The held tensors are those of
  // `layout` of the source's model; empty: the source's own.
  JobTarget(std::vector<JobTensorsOfRank> held, bool all_tensors, std::vector<std::string> kept,
            JobTensorParts parts = JobTensorParts::kAll, std::string layout = {})
      : held_(std::move(held)),
        all_tensors_(all_tensors),
        kept_(std::move(kept)),
        parts_(parts),
        layout_(std::move(layout)) {}

  llvm::Expected<Sides> Meet(BoundSource source) override;
  llvm::Expected<TargetFiles> LayOut(const Sides& sides) override;

  // After both.
  FileReaders TakeReaders() { return std::move(laid_out_.readers); }
  std::vector<std::vector<std::optional<RecordId>>> TakeRecords() { return std::move(laid_out_.records); }
  std::vector<NotLoaded> TakeNotLoaded() { return std::move(not_loaded_); }

 private:
  // Lays out what is held of these tensors, which have this layout.
  [[nodiscard]] llvm::Error LayOutHeld(const Layout& layout, std::span<const LogicalTensor> tensors);
  llvm::Expected<Sides> MeetInLayout(BoundSource source, std::vector<LogicalTensor> tensors);
  [[nodiscard]] llvm::Error CheckAllHeld(const Layout& layout, std::span<const LogicalTensor> tensors) const;

  std::vector<JobTensorsOfRank> held_;
  const bool all_tensors_;
  const std::vector<std::string> kept_;
  const JobTensorParts parts_;
  const std::string layout_;
  std::vector<NotLoaded> not_loaded_;
  LaidOutJobTensors laid_out_;
};

}  // namespace ucp
