// Everything that a run tells while it goes on: phases, progress on standard error, events, a timeline; and the bound
// on its bandwidth. A command makes one, works with its file system and its clock, and ends it.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>
#include <CLI/App.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/phase_clock.h"
#include "runtime/comm/communicator.h"
#include "runtime/command_line/ceilings.h"
#include "runtime/command_line/event_log.h"
#include "runtime/command_line/progress_line.h"
#include "runtime/command_line/timeline.h"
#include "runtime/executor/execute.h"
#include "runtime/storage/bandwidth_limit.h"
#include "runtime/storage/direct_io_files.h"
#include "runtime/storage/file_system.h"

namespace ucp {

struct WatchOptions {
  bool verbose = false;
  std::string events;               // A file, `-` for standard output, or empty.
  std::string timeline;             // A file, or empty.
  std::string max_bandwidth;        // "200MB", or empty.
  std::string ceilings;             // A file of `ucprun bench --json`, or empty.
  bool force = false;               // The two may replace files of any kind (output_place.h).
  std::vector<std::string> inputs;  // Files that the command reads, which the outputs may not be.
};
void AddWatchOptions(CLI::App& command, WatchOptions& options);
void AddCeilingsOption(CLI::App& command, WatchOptions& options);  // For those that report how near they came.

class RunWatch {
 public:
  // Rank 0 tells for all; the others keep to the bound on bandwidth, which is each rank's own. All call it together.
  // `files` must outlive it. Fails with kUsage and kIo.
  static llvm::Expected<std::unique_ptr<RunWatch>> Begin(FileSystem& files, const WatchOptions& options,
                                                         Communicator& ranks);
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  FileSystem& files() { return watched_ ? *watched_ : direct_io_files_; }
  // How files() reads and writes files from now on; to begin with, through the page cache.
  void Use(DirectIo means) { direct_io_files_.Use(means); }
  PhaseClock& clock() { return clock_; }
  bool has_bandwidth_limit() const { return limit_.has_value(); }
  const std::optional<Ceilings>& ceilings() const { return ceilings_; }

  // The callback of the executor.
  void Attach(ExecutionOptions& execution);
  // Elements begin to move: progress is shown from now on.
  void ShowProgress() { progress_.emplace(); }

  // Prints a sentence for --verbose: what was chosen, and why.
  void Note(const std::string& text);

  // Notes that the destination is complete, whatever goes wrong from now on.
  void NoteComplete() { is_complete_ = true; }
  bool is_complete() const { return is_complete_; }

  // Standard output has events or a timeline, and nothing else.
  bool tells_to_output() const { return tells_to_output_; }
  // Write the last event, if there are events, and return whether it went to standard output, which then holds events
  // and nothing else.
  bool TellReport(const llvm::json::Object& report);
  bool TellError(const std::string& code, const std::string& message);

  // Ends the last phase, and clears the line of progress.
  void EndPhases();
  // Call it last. Fails with kIo if events or the timeline could not be written.
  [[nodiscard]] llvm::Error End();

 private:
  RunWatch(FileSystem& files, const WatchOptions& options);
  static llvm::Expected<std::unique_ptr<RunWatch>> Begin(FileSystem& files, const WatchOptions& options);
  [[nodiscard]] llvm::Error OpenEvents();
  [[nodiscard]] llvm::Error OpenTimeline();
  void WatchFileCalls();
  void TellPhases();
  void Show(const ExecutionProgress& progress);

  FileSystem& files_;
  DirectIoFiles direct_io_files_;
  const WatchOptions options_;
  PhaseClock clock_;
  std::optional<ProgressLine> progress_;
  std::optional<BandwidthLimit> limit_;
  std::optional<Ceilings> ceilings_;
  std::optional<EventLog> events_;
  std::optional<Timeline> timeline_;
  std::unique_ptr<FileSystem> watched_;
  bool is_complete_ = false;
  bool tells_to_output_ = false;
  double told_at_ = 0;  // The last event of progress, by the clock.
};

// Returns the times of a clock's phases: [{"phase": "plan", "seconds": 0.12}, …].
llvm::json::Array PhasesJson(const PhaseClock& clock);

}  // namespace ucp
