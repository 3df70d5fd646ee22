// Executing a plan into a folder: the engine (engine.h) with a folder as its sink (folder_sink.h).
//
// A run that continues an earlier one begins by joining the entries that all ranks of that one wrote to the journal (J4
// of ranks_folder.h). The bytes of the target depend on the plan and the source alone, and not on threads, memory or
// timing (G4). Each needed source byte is read once, each target byte written once (G7).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/files/seen_files.h"
#include "compiler/plan/plan.h"
#include "compiler/support/phase_clock.h"
#include "runtime/engine/engine_options.h"
#include "runtime/engine/engine_report.h"
#include "runtime/engine/share_out.h"
#include "runtime/engine/source_of_nodes.h"
#include "runtime/engine/source_waves.h"
#include "runtime/engine/state_digests.h"
#include "runtime/storage/file_system.h"

namespace ucp {

struct ExecutionOptions : EngineOptions {
  bool verify_source_crc = true;
  DigestVersion digests = kDigestVersion;  // Of tensors.
  PhaseClock* clock = nullptr;             // Told of the phases `create`, `move` and `check`.
  // Receives the progress from which a later run goes on, once all that it vouches for is durable (J1 of journal.h):
  // when `journal_seconds` have passed since the last time, and when the run is cancelled. Not called before anything
  // is written; but before all else with `progress_before`, as one. Empty: nothing is kept.
  std::function<llvm::Error(const std::string& progress)> keep;
  double journal_seconds = 5;
  // The progress that an earlier run of the same plan gave to `keep`, the last of each of its ranks; rank 0 says it for
  // all.
  std::vector<std::string> progress_before;
  std::vector<int> node_of_rank;                  // NodesOfRanks(); empty: all are on one node.
  std::uint64_t stretch_border = kStretchBorder;  // Where a file may be cut that several ranks write (share_out.h).
  const SourceWaves* waves = nullptr;             // Of the source, for a run that keeps nothing; null: it is there.
  SourceOfNodes* nodes = nullptr;                 // Where the source is read; null: every rank sees all of it.
  std::vector<FileVersion> source_versions;       // The versions of files whose headers were read; empty: unknown.
};

struct ExecutionReport : EngineReport {
  std::uint64_t bytes_written = 0;        // To the target, headers included.
  std::uint64_t bytes_done_before = 0;    // Elements that an earlier run wrote.
  std::vector<std::string> file_digests;  // By FileId of the target.
};

// Fills `target_folder`, which all ranks see and which exists and is empty or was left by an earlier run, with the
// files of the plan. The plan must be verified. Codes: kBadData for a damaged, changed or self-contradicting source;
// kUsage if memory_bytes is too little, or if `progress_before` does not fit the plan, the source or the folder any
// more; kIo; kCancelled. After an error, only the progress that was given to `keep` can be resumed.
llvm::Expected<ExecutionReport> Execute(const Plan& plan, const std::string& source_root,
                                        const std::string& target_folder, FileSystem& files,
                                        const ExecutionOptions& options);

}  // namespace ucp
