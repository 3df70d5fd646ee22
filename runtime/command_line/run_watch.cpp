#include "runtime/command_line/run_watch.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/command_line/terminal.h"
#include "compiler/command_line/write_file.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/version.h"
#include "runtime/command_line/interrupt.h"
#include "runtime/storage/watched_file_system.h"

namespace ucp {
namespace {

// Slower, a thread's chunk would take minutes.
constexpr std::uint64_t kLeastBandwidth = std::uint64_t{64} << 10;

llvm::Expected<std::uint64_t> ParseBandwidth(const std::string& text) {
  const std::optional<std::uint64_t> bytes = ParseByteCount(text);
  if (bytes && *bytes >= kLeastBandwidth) return *bytes;
  return Fail(ErrorCode::kUsage,
              "--max-bandwidth takes the bytes of a second, such as 200MB, and 64KiB at least, not `{}`", text);
}

// `-` is standard output. `other` is another file that the command writes.
llvm::Expected<OutputPlace> PlaceOf(const std::string& path, const std::string& what, std::string_view begins,
                                    const WatchOptions& options, const std::string& other) {
  if (path == "-") return OutputPlace{OutputPlace::Kind::kStandardOutput, "-", what};
  OutputRequest request{.path = path, .what = what, .begins = begins, .force = options.force, .inputs = options.inputs};
  request.inputs.push_back(other);
  return PlaceOutput(request);
}

llvm::Expected<TextSink> OpenSink(const OutputPlace& place) {
  UCP_ASSIGN_OR_RETURN(std::FILE * file, OpenOutput(place));
  return TextSink(place.path, file);
}

PhaseClock::Listener OnEvent(EventLog& events, const char* name) {
  return [&events, name, tells_seconds = std::string_view(name) == "phase_end"](const Phase& phase) {
    llvm::json::Object fields{{"phase", phase.name}};
    if (tells_seconds) fields["seconds"] = phase.seconds;
    events.Add(name, std::move(fields));
  };
}

}  // namespace

void AddWatchOptions(CLI::App& command, WatchOptions& options) {
  command.add_flag("--verbose", options.verbose, "Say what each phase takes, and what was chosen, on standard error");
  command
      .add_option("--max-bandwidth", options.max_bandwidth,
                  "The most bytes to read and write in a second, over all threads: 200MB, 1GiB")
      ->type_name("SIZE");
  command
      .add_option(
          "--events", options.events,
          "Write what happens as lines of JSON, the report last; - is standard output, which then has nothing else")
      ->type_name("FILE");
  command
      .add_option("--timeline", options.timeline,
                  "The work of each thread over time, in the trace format of Chrome, for Perfetto and chrome://tracing")
      ->type_name("FILE");
}

void AddCeilingsOption(CLI::App& command, WatchOptions& options) {
  command
      .add_option("--ceilings", options.ceilings,
                  "The output of `ucprun bench DIR --json` for this storage; the report then says how near to it the "
                  "run came")
      ->type_name("FILE");
}

RunWatch::RunWatch(FileSystem& files, const WatchOptions& options)
    : files_(files), direct_io_files_(files), options_(options) {}

llvm::Expected<std::unique_ptr<RunWatch>> RunWatch::Begin(FileSystem& files, const WatchOptions& options) {
  std::unique_ptr<RunWatch> watch(new RunWatch(files, options));
  if (!options.max_bandwidth.empty()) {
    UCP_ASSIGN_OR_RETURN(std::uint64_t bytes, ParseBandwidth(options.max_bandwidth));
    watch->limit_.emplace(bytes, &WatchForInterrupts());
  }
  if (!options.ceilings.empty()) {
    UCP_ASSIGN_OR_RETURN(watch->ceilings_, ReadCeilings(files, options.ceilings));
  }
  if (!options.events.empty()) UCP_RETURN_IF_ERROR(watch->OpenEvents());
  if (!options.timeline.empty()) UCP_RETURN_IF_ERROR(watch->OpenTimeline());
  watch->TellPhases();
  watch->WatchFileCalls();
  return watch;
}

llvm::Expected<std::unique_ptr<RunWatch>> RunWatch::Begin(FileSystem& files, const WatchOptions& options,
                                                          Communicator& ranks) {
  if (ranks.rank() == 0) {
    llvm::Expected<std::unique_ptr<RunWatch>> watch = Begin(files, options);
    UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, watch ? llvm::Error::success() : watch.takeError()));
    return watch;
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, llvm::Error::success()));
  WatchOptions quiet;
  quiet.max_bandwidth = options.max_bandwidth;
  return Begin(files, quiet);
}

llvm::Error RunWatch::OpenEvents() {
  UCP_ASSIGN_OR_RETURN(const OutputPlace place,
                       PlaceOf(options_.events, "the events", EventLog::kBeginning, options_, ""));
  tells_to_output_ = place.kind == OutputPlace::Kind::kStandardOutput;
  UCP_ASSIGN_OR_RETURN(TextSink sink, OpenSink(place));
  events_.emplace(std::move(sink));
  events_->Add("begin", llvm::json::Object{{"tool", std::string("ucprun ") + kVersion}});
  return llvm::Error::success();
}

llvm::Error RunWatch::OpenTimeline() {
  const std::string events = tells_to_output_ ? "" : options_.events;
  UCP_ASSIGN_OR_RETURN(const OutputPlace place,
                       PlaceOf(options_.timeline, "the timeline", Timeline::kBeginning, options_, events));
  const bool goes_to_output = place.kind == OutputPlace::Kind::kStandardOutput;
  if (goes_to_output && tells_to_output_) {
    return Fail(ErrorCode::kUsage, "--events and --timeline both go to standard output; name a file for one of them");
  }
  tells_to_output_ = tells_to_output_ || goes_to_output;
  UCP_ASSIGN_OR_RETURN(TextSink sink, OpenSink(place));
  timeline_.emplace(std::move(sink));
  return llvm::Error::success();
}

void RunWatch::TellPhases() {
  if (events_) {
    clock_.TellBegin(OnEvent(*events_, "phase_begin"));
    clock_.TellEnd(OnEvent(*events_, "phase_end"));
  }
  if (timeline_) {
    clock_.TellEnd([this](const Phase& phase) {
      const auto end = std::chrono::steady_clock::now();
      const std::chrono::duration<double> duration(phase.seconds);
      timeline_->AddPhase(
          {phase.name, {}, 0, end - std::chrono::duration_cast<std::chrono::steady_clock::duration>(duration), end});
    });
  }
  if (options_.verbose) {
    clock_.TellEnd([this](const Phase& phase) { Note(fmt::format("{:<9} {:.3f} s", phase.name, phase.seconds)); });
  }
}

void RunWatch::WatchFileCalls() {
  FileWatchers watchers;
  if (limit_) watchers.before_moving = [this](std::uint64_t bytes) { limit_->Wait(bytes); };
  if (timeline_) {
    watchers.after_call = [this](const FileCall& call) {
      timeline_->Add({call.what, call.path, call.bytes, call.begin, call.end});
    };
  }
  if (watchers.before_moving || watchers.after_call) watched_ = WatchFiles(direct_io_files_, std::move(watchers));
}

void RunWatch::Attach(ExecutionOptions& execution) {
  execution.clock = &clock_;
  execution.progress = [this](const ExecutionProgress& progress) { Show(progress); };
  if (!timeline_) return;
  execution.after_chunk = [this](const FinishedChunk& chunk) {
    timeline_->Add({fmt::format("{} {}", chunk.tensor, chunk.state), {}, chunk.bytes, chunk.begin, chunk.end});
  };
}

void RunWatch::Show(const ExecutionProgress& progress) {
  if (progress_) progress_->Show(progress);
  if (!events_) return;
  constexpr double kSecondsBetween = 1;
  const double now = clock_.Now();
  if (progress.bytes_done < progress.bytes_total && now - told_at_ < kSecondsBetween) return;
  told_at_ = now;
  events_->Add("progress", llvm::json::Object{{"bytes_done", progress.bytes_done},
                                              {"bytes_total", progress.bytes_total},
                                              {"files_done", progress.files_done},
                                              {"files_total", progress.files_total}});
}

void RunWatch::Note(const std::string& text) {
  if (!options_.verbose) return;
  if (progress_) progress_->Clear();
  ShowMessage(text);
}

bool RunWatch::TellReport(const llvm::json::Object& report) {
  if (events_) events_->Add("report", llvm::json::Object{{"report", llvm::json::Object(report)}});
  return tells_to_output_;
}

bool RunWatch::TellError(const std::string& code, const std::string& message) {
  if (events_) {
    events_->Add("error", llvm::json::Object{{"error", llvm::json::Object{{"code", code}, {"message", message}}}});
  }
  return tells_to_output_;
}

void RunWatch::EndPhases() {
  clock_.End();
  progress_.reset();
}

llvm::Error RunWatch::End() {
  EndPhases();
  llvm::Error of_events = events_ ? events_->Close() : llvm::Error::success();
  llvm::Error of_timeline = timeline_ ? timeline_->Close() : llvm::Error::success();
  if (!of_events) return of_timeline;
  llvm::consumeError(std::move(of_timeline));
  return of_events;
}

llvm::json::Array PhasesJson(const PhaseClock& clock) {
  llvm::json::Array phases;
  for (const Phase& phase : clock.phases()) {
    phases.push_back(llvm::json::Object{{"phase", phase.name}, {"seconds", phase.seconds}});
  }
  return phases;
}

}  // namespace ucp
