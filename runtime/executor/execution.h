// One run of one plan, of one rank: its chunks, and what is added up on the way (execute.h says the whole).
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/support/parallel.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor/buffers.h"
#include "runtime/executor/chunk_maker.h"
#include "runtime/executor/comparison.h"
#include "runtime/executor/element_intervals.h"
#include "runtime/executor/execute.h"
#include "runtime/executor/execute_parts.h"
#include "runtime/executor/progress_teller.h"
#include "runtime/executor/share_out.h"
#include "runtime/executor/source_files.h"
#include "runtime/executor/state_digests.h"
#include "runtime/executor/target_writer.h"
#include "runtime/executor/work_list.h"

namespace ucp {

class Execution {
 public:
  // All must outlive this. `parts`: of the target, if it is in several. `done_before`: elements that an earlier run
  // wrote, of this rank's part of the target.
  Execution(const Plan& plan, const std::string& source_root, const std::string& target_folder, FileSystem& files,
            const ExecutionOptions& options, const TargetParts* parts, const BufferSizes& sizes,
            const std::vector<ElementInterval>& done_before);

  // Whether this rank is the first of those that fill its folder: rank 0, or of each part of a target the lowest.
  bool is_leader() const { return leader_ == ranks_.rank(); }

  // Call before Run(), with what Save() wrote behind the intervals. Sums over ranks are the leader's.
  void Restore(wire::ByteReader& reader);
  // How far this rank has come, with all it was given to restore.
  std::string Save() const;

  [[nodiscard]] llvm::Error Run();
  llvm::Expected<ExecutionReport> Report() const;  // Of all ranks, at rank 0.

 private:
  using Clock = std::chrono::steady_clock;

  std::uint64_t FilesToWrite() const;
  [[nodiscard]] llvm::Error Prepare();
  [[nodiscard]] llvm::Error WriteFiles();
  [[nodiscard]] llvm::Error FinishFiles();
  [[nodiscard]] llvm::Error RunChunks();
  [[nodiscard]] llvm::Error RunChunk(unsigned thread, const std::vector<TargetRange>& ranges);
  bool IsAskedToStop(unsigned thread);
  std::uint64_t ChunksDone() const;
  bool HasPassed(double seconds) const;
  [[nodiscard]] llvm::Error Keep();
  [[nodiscard]] llvm::Error KeepLast();
  std::vector<ElementInterval> Done() const;

  // The sums of ranks (execution_sums.cpp).
  void SaveSums(wire::ByteWriter& writer) const;
  void RestoreSums(wire::ByteReader& reader);
  [[nodiscard]] llvm::Error Gather();
  [[nodiscard]] llvm::Error TakeAll(const std::vector<std::string>& all);
  [[nodiscard]] llvm::Error TakeOne(int rank, const std::string& given, FileSums& copies);
  [[nodiscard]] llvm::Error CheckCopies(int part, const FileSums& copies) const;
  [[nodiscard]] llvm::Error CheckSource();
  [[nodiscard]] llvm::Error CheckSourceOfNodes();

  const Plan& plan_;
  const ExecutionOptions& options_;
  const TargetParts* const parts_;  // Null: the target is in one piece.
  Communicator& ranks_;
  const int leader_;
  const TargetShare share_;          // Of the target, this rank's.
  const std::vector<bool> is_copy_;  // Files of this rank that enter sums in another part; empty: none does.
  ParallelOptions parallel_;
  Buffers buffers_;
  StepEnumerator steps_;
  const std::vector<ElementInterval> done_before_;
  WorkList work_;
  SourceFiles source_;
  TargetWriter target_;
  Comparison comparison_;
  StateDigests digests_;
  ChunkMaker maker_;
  ChunkMaker copy_maker_;             // Counts nothing: another part does.
  const std::uint64_t bytes_before_;  // Elements of this rank's files that an earlier run wrote.
  ProgressTeller progress_;
  ExecutionReport others_;              // What the other ranks counted, at rank 0.
  std::vector<WorkStretch> stretches_;  // Of the chunks. Changes only while the threads pause.
  std::uint64_t kept_ = 0;              // So many chunks are in the journal.
  std::atomic<bool> is_asked_to_stop_ = false;
  std::atomic<bool> pause_ = false;
  Clock::time_point kept_at_;  // Changes only while the threads pause.
};

}  // namespace ucp
