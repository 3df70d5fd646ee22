// A target that has a place for every number of a checkpoint: each tensor whole and row-major, each of its states a
// file. To read all of a checkpoint, or to compare it with another.
#pragma once

#include <span>
#include <string>

#include "compiler/compile/compile.h"
#include "compiler/formats/trained_settings.h"

namespace ucp {

// Files are named by their numbers. Shards are in the order of the tensors.
Storage OneFileForEachState(std::span<const LogicalTensor> tensors);

class WholeStates final : public CompileTarget {
 public:
  // The tensors are those of this layout of the source's model; empty: the source's own.
  explicit WholeStates(std::string layout = {}) : layout_(std::move(layout)) {}

  llvm::Expected<Sides> Meet(BoundSource source) override;
  llvm::Expected<TargetFiles> LayOut(const Sides& sides) override;

 private:
  const std::string layout_;
};

// A checkpoint into these.
llvm::Expected<Compiled> CompileWholeStates(ReadableFileSystem& files, const SourceRequest& request,
                                            ReplicaPolicy replicas = ReplicaPolicy::kCompare);

// The settings with which a checkpoint was trained, and why its optimizer is not read although there is one, as a
// sentence. For comparisons of checkpoints.
struct TrainingOfCheckpoint {
  SettingsOfParameters settings;
  std::string unread_optimizer;  // Empty: it is read, or there is none.
};
TrainingOfCheckpoint TrainingOf(const Checkpoint& checkpoint);

}  // namespace ucp
