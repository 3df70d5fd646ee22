// Executing a plan: the one place where elements move.
//
//   E1  Every source file is what the plan was made from: same size, and the same file as the headers were read of.
//   E2  Folders and files of the target are made at their final size.
//   E3  Chunk by chunk, in the order of the target's files and over all threads: read what belongs there, read what
//       must equal it and compare, do the arithmetic and the cast, write it.
//   E4  What no step needed of the records that were touched is read, and every record's CRC-32 is what its archive
//       says.
//   E5  No source file was changed meanwhile.
//
// In E3 the threads pause now and then: what was written is synced, and how far the run has come is given to the
// journal, with all that was added up on the way. A later run goes on from there as if it had never stopped: chunks are
// handed out in one order, so what is done is a stretch of elements for each thread.
//
// On several ranks each writes whole files or stretches of large ones (share_out.h), and reads what belongs there.
// Their sums come together at rank 0, which does E4 and E5; one rank's error is every rank's (communicator.h). Each
// gives its journal what it did itself; a run that goes on begins by joining what all ranks of the earlier one gave (J4
// of ranks_folder.h). Where each node sees only a part of the source (source_of_nodes.h), every rank learns what was
// added up of it, and does E4 and E5 for its part.
//
// The bytes of the target depend on the plan and the source alone, and not on threads, memory or timing (G4). Each
// needed source byte is read once, each target byte written once (G7).
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/files/seen_files.h"
#include "compiler/plan/plan.h"
#include "compiler/support/phase_clock.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor/share_out.h"
#include "runtime/executor/source_of_nodes.h"
#include "runtime/executor/state_digests.h"
#include "runtime/storage/file_system.h"
#include "runtime/storage/open_file_limit.h"

namespace ucp {

struct ExecutionProgress {
  std::uint64_t bytes_done = 0;  // Of the elements that are written.
  std::uint64_t bytes_total = 0;
  std::uint64_t files_done = 0;  // Complete, headers included.
  std::uint64_t files_total = 0;
};

// A part of a tensor's state that was read, made into what is written, and written.
struct FinishedChunk {
  const std::string& tensor;
  const std::string& state;
  std::uint64_t bytes = 0;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

struct ExecutionOptions {
  unsigned threads = 1;
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  std::uint64_t most_chunk_bytes = std::uint64_t{1} << 21;  // At least 16. A chunk that a core's cache holds is best.
  OpenFileShares open_files;
  bool verify_source_crc = true;
  // Called from any thread, one call at a time, a few times a second and once at the end.
  std::function<void(const ExecutionProgress&)> progress;
  std::function<void(const FinishedChunk&)> after_chunk;  // Called from any thread, many at a time.
  DigestVersion digests = kDigestVersion;                 // Of tensors.
  PhaseClock* clock = nullptr;                            // Told of the phases `create`, `move` and `check`.
  const std::atomic<bool>* cancelled = nullptr;
  // Given what a later run goes on from, once all that it vouches for is durable (J1 of journal.h): when
  // `journal_seconds` have passed since the last time, and when the run is cancelled. Not called before anything is
  // written; but before all else with what `progress_before` says, as one. Empty: nothing is kept.
  std::function<llvm::Error(const std::string& progress)> keep;
  double journal_seconds = 5;
  // The progress that an earlier run of the same plan gave to `keep`, the last of each of its ranks; rank 0 says it for
  // all.
  std::vector<std::string> progress_before;
  // The ranks that share the work, each with the same plan; null: this process alone.
  Communicator* ranks = nullptr;
  std::vector<int> node_of_rank;                  // NodesOfRanks(); empty: all are on one node.
  std::uint64_t stretch_border = kStretchBorder;  // Where a file may be cut that several ranks write (share_out.h).
  SourceOfNodes* nodes = nullptr;                 // Where the source is read; null: every rank sees all of it.
  std::vector<FileVersion> source_versions;       // What the headers were read of, by FileId; empty: nobody looked.
};

// A tensor whose model weight is not the rounding of its master.
struct RoundingMismatch {
  std::string tensor;
  std::uint64_t elements = 0;  // Of all shards and copies.
  std::string first;           // The first one in words.
  // Of the shard or copy, or of the file of several that one is joined of, most of whose weights are not.
  struct Worst {
    std::uint64_t elements = 0;
    std::uint64_t of = 0;
    std::string first;
  } worst = {};
};

struct ExecutionReport {
  std::uint64_t bytes_copied = 0;       // Read from the source and written to the target.
  std::uint64_t bytes_compared = 0;     // Read from the source to be compared.
  std::uint64_t bytes_checksummed = 0;  // Read from the source for its checksums only.
  std::uint64_t bytes_written = 0;      // To the target, headers included.
  std::uint64_t bytes_done_before = 0;  // Elements that an earlier run wrote.
  std::uint64_t bytes_exchanged = 0;    // Of the source, from one rank to another.
  double seconds = 0;
  unsigned threads = 0;
  std::uint64_t chunk_bytes = 0;                      // What a thread moves at a time.
  std::uint64_t buffer_bytes = 0;                     // What all threads' buffers took.
  std::uint64_t peak_memory_bytes = 0;                // Of the process, as the operating system counted it.
  std::vector<RoundingMismatch> rounding_mismatches;  // By name.
  std::vector<RankDecision> decisions;                // What Plan::preference decided among the elements.
  std::vector<std::string> notes;                     // Sentences.
  std::vector<StateDigest> digests;                   // By tensor and state.
  std::vector<std::string> file_digests;              // By FileId of the target.
};

// Fills `target_folder`, which all ranks see and which exists and is empty or what an earlier run left, with what the
// plan writes. The plan must be verified. Codes: kBadData for a damaged, changed or self-contradicting source; kUsage
// if memory_bytes is too little, or if `progress_before` does not fit the plan, the source or the folder any more; kIo;
// kCancelled. After an error the folder is worth what was given to `keep`, if anything.
llvm::Expected<ExecutionReport> Execute(const Plan& plan, const std::string& source_root,
                                        const std::string& target_folder, FileSystem& files,
                                        const ExecutionOptions& options);

}  // namespace ucp
