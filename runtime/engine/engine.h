// Executing a plan: the one place where elements move, from a source (source_files.h) into a sink (sink.h).
//
//   E1  Every source file is one that the plan was made from: same size, and the same file as the headers were read of.
//   E2  The sink makes room: files at their final size, or memory that is zero where no element comes.
//   E3  The sink asks for elements, chunk by chunk and over all threads: read what belongs there, read what must equal
//       it and compare, do the arithmetic and the cast, hand it over.
//   E4  The rest of each record that was read is read too, and its CRC-32 must be the one in its archive.
//   E5  No source file was changed meanwhile.
//
// On several ranks the sums of all come together at rank 0, which does E4 and E5; one rank's error is every rank's
// (communicator.h). Where each node sees only a part of the source (source_of_nodes.h), every rank learns the sums of
// all ranks, and does E4 and E5 for its part.
//
// The elements depend on the plan and the source alone, and not on threads, memory or timing (G4). One plan can be run
// any number of times, by an engine each; an engine keeps nothing outside itself.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/files/seen_files.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "compiler/support/parallel.h"
#include "compiler/support/phase_clock.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/buffers.h"
#include "runtime/engine/chunk_maker.h"
#include "runtime/engine/comparison.h"
#include "runtime/engine/engine_options.h"
#include "runtime/engine/engine_report.h"
#include "runtime/engine/progress_teller.h"
#include "runtime/engine/sink.h"
#include "runtime/engine/source_files.h"
#include "runtime/engine/source_of_nodes.h"
#include "runtime/engine/state_digests.h"

namespace ucp {

// Where the source is read. All that is referred to must outlive the engine.
struct EngineSource {
  const std::string& root;    // The folder of the paths of the plan's files.
  ReadableFileSystem& files;  // Of many nodes: theirs together.
  SourceOfNodes* nodes = nullptr;
  std::vector<FileVersion> versions = {};  // The versions of files whose headers were read, by FileId; empty: unknown.
  std::size_t most_open = OpenFileShares().reading;
};

// The checks of the source, and the sums over its elements.
struct EngineChecks {
  bool checksums = true;
  bool copies = true;            // The plan's comparisons.
  bool every_rank_looks = true;  // At all files, before anything is read; otherwise rank 0 does for all.
  ComparedWrites compared = ComparedWrites::kFirstOfEqual;
  std::optional<DigestVersion> digests = {};  // Of tensors; nothing: there are none.
};

// A range whose elements are in memory as the target has them.
struct MadeRange {
  const TargetRange* range = nullptr;
  std::span<std::byte> bytes;
  std::optional<std::uint32_t> crc32;  // If reading them gave it.
};

// Ranges of one file that lie next to one another. `memory` is from the first to the last, each where it stands in the
// file; the bytes between them are the sink's to fill.
struct MadeChunk {
  std::span<std::byte> memory;
  llvm::SmallVector<MadeRange, 1> ranges;
};

class Engine {
 public:
  // All must outlive this.
  Engine(const Plan& plan, EngineSource source, const EngineOptions& options, const EngineChecks& checks,
         const BufferSizes& sizes, PhaseClock* clock = nullptr);

  // E1 to E5. All ranks call it, each with its own sink. Call it once. Codes: kBadData for a damaged, changed or
  // self-contradicting source; kIo; kCancelled; and those of the sink.
  [[nodiscard]] llvm::Error Run(Sink& sink);

  // After Run(), of all ranks, at rank 0: everything that does not depend on the sink.
  llvm::Expected<EngineReport> Report() const;
  // Returns, on every rank, the bytes that all ranks have read from storage, for any purpose.
  std::uint64_t bytes_read_by_all() const { return BytesRead() + read_by_others_; }
  std::uint64_t BytesRead() const;  // By this rank.

  // These functions are for sinks, while they are filled. Those that take the number of a thread are called by that
  // thread alone.

  const Plan& plan() const { return plan_; }
  Communicator& ranks() const { return ranks_; }
  const ParallelOptions& parallel() const { return parallel_; }
  std::span<const std::span<std::byte>> scratch() const { return buffers_.scratch(); }
  std::uint64_t buffer_bytes() const { return buffers_.bytes(); }
  void BeginPhaseOf(const char* phase) const { BeginPhase(clock_, phase); }

  // Makes the ranges of one chunk in the buffer of the thread and gives them to `take`. Elements that do not count
  // are neither compared nor added to digests: another rank's copy of them is.
  [[nodiscard]] llvm::Error MakeChunk(unsigned thread, std::span<const TargetRange> ranges, bool counts,
                                      llvm::function_ref<llvm::Error(MadeChunk&)> take);
  // Makes one range at its final place in memory, which is as long as its elements are in the range's dtype.
  [[nodiscard]] llvm::Error MakeInPlace(unsigned thread, const TargetRange& range, std::span<std::byte> place);
  // Reads bytes of a record of the source as they are.
  [[nodiscard]] llvm::Error ReadRecord(RecordId record, std::uint64_t offset, std::span<std::byte> place);

  // Returns whether another rank asks all to stop. One thread speaks with the other ranks.
  bool IsAskedToStop(unsigned thread) const { return thread == 0 && ranks_.IsAskedToStop(); }
  void AddProgress(std::uint64_t bytes, std::uint64_t files_done = 0) { progress_->Add(bytes, files_done); }

  // A later run resumes from these: times of files, which every rank needs, and sums, which one rank holds for all.
  void SaveTimes(wire::ByteWriter& writer) const { source_.SaveTimes(writer); }
  void RestoreTimes(wire::ByteReader& reader) { source_.RestoreTimes(reader); }
  void SaveSums(wire::ByteWriter& writer) const;
  void RestoreSums(wire::ByteReader& reader);

 private:
  [[nodiscard]] llvm::Error CheckSizes();
  [[nodiscard]] llvm::Error FillAll(Sink& sink);
  [[nodiscard]] llvm::Error Gather(Sink& sink);
  [[nodiscard]] llvm::Error TakeAll(Sink& sink, const std::vector<std::string>& all);
  [[nodiscard]] llvm::Error TakeOne(Sink& sink, int rank, const std::string& given);
  [[nodiscard]] llvm::Error CheckSource();
  [[nodiscard]] llvm::Error CheckSourceOfNodes();
  void TellChunk(const MadeChunk& chunk, std::span<const std::chrono::steady_clock::time_point> times) const;

  const Plan& plan_;
  const EngineOptions& options_;
  const EngineChecks checks_;
  PhaseClock* const clock_;
  Communicator& ranks_;
  SourceOfNodes* const nodes_;
  const ParallelOptions parallel_;
  Buffers buffers_;
  StepEnumerator steps_;
  SourceFiles source_;
  Comparison comparison_;
  std::optional<StateDigests> digests_;
  ChunkMaker maker_;
  ChunkMaker uncounted_maker_;
  std::optional<ProgressTeller> progress_;  // While a sink is filled.
  EngineReport others_;                     // The sums of the other ranks, at rank 0.
  std::uint64_t read_by_others_ = 0;
};

}  // namespace ucp
