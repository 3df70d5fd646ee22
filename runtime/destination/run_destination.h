// The destination of one run, over all its ranks. Rank 0 stages and commits it (commit.h), and the others have a share
// in the hidden folder (ranks_folder.h). With --node-local destination each node has a part of it on a disk of its own,
// and the lowest rank of each part acts for that part as rank 0 does for a shared destination. Then this also holds:
//
//   P1  A part is a destination of its own, on its node: I1 to I4 and J1 to J4 hold for it.
//   P2  No part appears before all parts are durable, and all ranks have said so.
//   P3  Nothing old is removed before all parts have appeared; if one cannot, the others vanish again. So an error
//   means
//       "not there", on every node.
//   P4  A part says which one it is, of how many, and of which run; its manifest lists the files of all parts. The run
//       follows from the plan and the number of parts: two parts of one run fit together, whenever they were written.
//   P5  A folder that lacks files of other parts is never read alone, and parts of several runs never together
//       (part_of_checkpoint.h, parts_of_source.h).
//   P6  After a run that died while its parts appeared, a run with --resume finds those that did complete, continues
//   the
//       others, and compares its output with the manifests of the complete ones.
#pragma once

#include <llvm/Support/Error.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/support/phase_clock.h"
#include "runtime/comm/communicator.h"
#include "runtime/commit/commit.h"
#include "runtime/destination/earlier_run.h"
#include "runtime/engine/share_run.h"
#include "runtime/engine/target_parts.h"
#include "runtime/executor/element_counts.h"
#include "runtime/executor/execute.h"
#include "runtime/manifest/manifest.h"
#include "runtime/peer_files/node_local.h"

namespace ucp {

struct DestinationOptions {
  std::string destination;  // A folder that does not exist, or with `force` one that is replaced.
  bool force = false;
  bool resume = false;           // Go on where an interrupted run stopped.
  bool has_source = true;        // Otherwise what is read is computed.
  bool keeps_unfinished = true;  // After a failure, what a later run can resume from. Otherwise nothing is kept.
  NodeLocal node_local;
};

// Every function that is not const is called by all ranks together.
class RunDestination {
 public:
  // All must outlive the result. `execution` gets the progress of an earlier run, and the shares of the ranks.
  // `appeared` is called once the destination is there, and what is left is to clean up.
  static llvm::Expected<std::unique_ptr<RunDestination>> Begin(FileSystem& files, const PlannedRun& run,
                                                               const DestinationOptions& options,
                                                               std::function<void()> appeared,
                                                               ExecutionOptions& execution);

  // Returns the hidden folder that this rank commits; empty: another rank does, or nothing is left to do.
  std::string FolderToCommit() const { return Commits() ? where_.folder : std::string(); }
  // An earlier run has done all.
  bool is_complete() const;
  const std::optional<TargetParts>& parts() const { return parts_; }
  // Returns the bytes of this rank's part, which it commits.
  BytesToDo Left(const ExecutionOptions& execution) const;
  std::string sync_choice() const { return Commits() ? staging_->sync_choice() : "every file of this part was there"; }

  llvm::Expected<ExecutionReport> Fill(ExecutionOptions& execution);
  // `report` is rank 0's.
  [[nodiscard]] llvm::Error Commit(ExecutionReport& report, const ExecutionOptions& execution, PhaseClock& clock);
  // After Fill() or Commit() failed: the progress for a later run is kept, and removed only if it is of no use, because
  // the source is at fault. The error says so.
  [[nodiscard]] llvm::Error Conclude(llvm::Error error);

 private:
  RunDestination(FileSystem& files, const PlannedRun& run, const DestinationOptions& options,
                 std::function<void()> appeared, Communicator& ranks)
      : files_(files), run_(run), plan_(run.plan), options_(options), appeared_(std::move(appeared)), ranks_(ranks) {}

  [[nodiscard]] llvm::Error FindParts(const ExecutionOptions& execution);
  [[nodiscard]] llvm::Error Stage(ExecutionOptions& execution);
  [[nodiscard]] llvm::Error TellOthers();
  llvm::Expected<bool> IsComplete();
  llvm::Expected<Manifest> ManifestOfAll(ExecutionReport& report);
  [[nodiscard]] llvm::Error WriteManifest(Manifest manifest);
  [[nodiscard]] llvm::Error AppearTogether();
  llvm::Error Settle(llvm::Error error);

  int part() const { return parts_ ? parts_->PartOf(ranks_.rank()) : 0; }
  int leader() const { return parts_ ? parts_->LeaderOf(part()) : 0; }
  bool is_leader() const { return leader() == ranks_.rank(); }
  bool is_done() const { return parts_ && parts_->IsDone(part()); }
  bool Commits() const { return is_leader() && !is_done(); }

  FileSystem& files_;
  const PlannedRun& run_;
  const Plan& plan_;
  const DestinationOptions& options_;
  const std::function<void()> appeared_;
  Communicator& ranks_;
  std::optional<TargetParts> parts_;
  RunIdentity identity_;
  std::optional<Staging> staging_;    // A leader's.
  std::optional<Manifest> complete_;  // The manifest that a leader found at a destination that is complete.
  StagedFolder where_;                // Of this rank's part; no folder if it is done.
  std::string entry_head_;
  bool was_complete_ = false;
  bool have_appeared_ = false;  // All parts.
};

}  // namespace ucp
