// A folder of files as the sink of a run. Elements go by in the order of the target's files, over all threads. Now and
// then the threads pause: written files are synced, and how far the run has come is given to the journal, with all that
// was added up on the way. A later run continues from there as if it had never stopped: chunks are handed out in one
// order, so the finished work is a stretch of elements for each thread.
//
// On several ranks each writes whole files or stretches of large ones (share_out.h), and its journal has its own work.
// Where a target is in parts (target_parts.h), elements that several of them have are written in each, and enters the
// sums in one. Of the others, rank 0 compares the output with that: a source that changed between two copies of a file
// is noticed.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/support/parallel.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/buffers.h"
#include "runtime/engine/element_intervals.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/share_out.h"
#include "runtime/engine/sink.h"
#include "runtime/engine/work_list.h"
#include "runtime/executor/execute.h"
#include "runtime/executor/target_writer.h"

namespace ucp {

class FolderSink : public Sink {
 public:
  // All must outlive this. `parts`: of the target; null: it is in one piece. `done_before`: elements that an earlier
  // run wrote, of this rank's part of the target.
  FolderSink(Engine& engine, const std::string& folder, FileSystem& files, const ExecutionOptions& options,
             const TargetParts* parts, const BufferSizes& sizes, const std::vector<ElementInterval>& done_before);

  // Returns whether this rank is the first of those that fill its folder: rank 0, or of each part of a target the
  // lowest.
  bool is_leader() const { return leader_ == ranks_.rank(); }

  // Call before the run, with the bytes that SaveProgress() wrote behind the intervals. Sums over ranks are the
  // leader's.
  void RestoreProgress(wire::ByteReader& reader);
  // Returns how far this rank has come, with all it was given to restore.
  std::string SaveProgress() const;

  // Adds the entries that only folders have. After the run, of all ranks, at rank 0.
  void AddTo(ExecutionReport& report) const;

  SinkSize Size() const override;
  [[nodiscard]] llvm::Error Prepare(Engine& engine) override;
  [[nodiscard]] llvm::Error Fill(Engine& engine) override;
  [[nodiscard]] llvm::Error KeepUnfinished(Engine& engine) override;
  [[nodiscard]] llvm::Error Finish(Engine& engine) override;
  int PartOf(int rank) const override { return parts_ == nullptr ? 0 : parts_->PartOf(rank); }
  void Save(wire::ByteWriter& writer) const override;
  void Take(int rank, wire::ByteReader& reader) override;
  [[nodiscard]] llvm::Error EndPart(int part) override;

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] llvm::Error RunWaves(const SourceWaves& waves);
  [[nodiscard]] llvm::Error RunChunks();
  [[nodiscard]] llvm::Error RunChunk(unsigned thread, const std::vector<TargetRange>& ranges);
  bool IsAskedToStop(unsigned thread);
  std::uint64_t ChunksDone() const;
  bool HasPassed(double seconds) const;
  [[nodiscard]] llvm::Error Keep();
  std::vector<ElementInterval> Done() const;

  Engine& engine_;
  const Plan& plan_;
  const ExecutionOptions& options_;
  const TargetParts* const parts_;
  Communicator& ranks_;
  const int leader_;
  const TargetShare share_;          // Of the target, this rank's.
  const std::vector<bool> is_copy_;  // Files of this rank that enter sums in another part; empty: none does.
  const ParallelOptions parallel_;
  const std::vector<ElementInterval> done_before_;
  WorkList work_;
  TargetWriter target_;
  const std::uint64_t bytes_before_;    // Elements of this rank's files that an earlier run wrote.
  std::vector<WorkStretch> stretches_;  // Of the chunks. Changes only while the threads pause.
  std::uint64_t kept_ = 0;              // So many chunks are in the journal.
  std::atomic<bool> is_asked_to_stop_ = false;
  std::atomic<bool> pause_ = false;
  Clock::time_point kept_at_;  // Changes only while the threads pause.
  // At rank 0, of the other ranks.
  std::uint64_t written_by_others_ = 0;
  std::uint64_t before_of_others_ = 0;
  std::optional<FileSums> copies_;  // In the part that is taken, of files that enter the sums in another.
};

}  // namespace ucp
