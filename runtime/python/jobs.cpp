#include "runtime/python/jobs.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile/both_sides.h"
#include "compiler/explain/explain.h"
#include "compiler/explain/explain_json.h"
#include "compiler/open/with_diagnostics.h"
#include "compiler/strategies/rank_strategies.h"
#include "compiler/support/error.h"
#include "compiler/support/peak_memory.h"
#include "runtime/jobs/convert/convert.h"
#include "runtime/jobs/diff/diff.h"
#include "runtime/jobs/verify/verify.h"
#include "runtime/python/interruptible.h"
#include "runtime/python/raise.h"
#include "runtime/python/ranks.h"
#include "runtime/save/find_machines.h"
#include "runtime/save_run/convert_together.h"

namespace nb = nanobind;

namespace ucp {
namespace {

// How far a job is, from its threads to the one that may call Python.
class Progress {
 public:
  explicit Progress(nb::object callback) : callback_(std::move(callback)) {}

  void Set(const ExecutionProgress& now) {
    std::lock_guard lock(mutex_);
    latest_ = {now.bytes_done, now.bytes_total};
  }

  // Calls `callback(bytes_done, bytes_total)` if that is news.
  void Report() {
    if (callback_.is_none()) return;
    std::optional<std::pair<std::uint64_t, std::uint64_t>> news;
    {
      std::lock_guard lock(mutex_);
      news = std::exchange(latest_, std::nullopt);
    }
    if (news) callback_(news->first, news->second);
  }

 private:
  nb::object callback_;
  std::mutex mutex_;  // Protects the next.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> latest_;
};

// The common arguments of all jobs.
struct Work {
  unsigned threads = 1;
  std::uint64_t memory_bytes = 0;
  bool checksums = true;
  nb::object progress;
};

// A job counts all memory of its process (resident_memory.h), and this process had other work before.
std::uint64_t WithProcess(std::uint64_t memory_bytes) {
  const std::uint64_t process = PeakMemoryBytes();
  return memory_bytes + std::min(process, std::numeric_limits<std::uint64_t>::max() - memory_bytes);
}

// Runs a job that can be stopped; its error has the spec's diagnostics behind it.
template <typename Job>
void RunJob(const Work& work, Job job) {
  Progress progress(work.progress);
  RunInterruptibly(
      [&](const std::atomic<bool>& cancelled) -> llvm::Error {
        ExecutionOptions execution;
        execution.threads = work.threads;
        execution.memory_bytes = WithProcess(work.memory_bytes);
        execution.verify_source_crc = work.checksums;
        execution.cancelled = &cancelled;
        UCP_ASSIGN_OR_RETURN(execution.open_files, DivideOpenFiles(OpenFileLimit(), work.threads));
        std::string errors;
        JobHooks hooks;
        hooks.begin_progress = [&progress]() -> ProgressCallback {
          return [&progress](const ExecutionProgress& now) { progress.Set(now); };
        };
        hooks.bound = [&](const SpecSession& spec) { errors = ErrorsOf(spec); };
        return WithDiagnostics(job(std::move(execution), hooks), errors);
      },
      [&] { progress.Report(); });
}

std::string TextOf(const llvm::json::Value& value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

template <typename Write>
std::string TextBy(Write write) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::json::OStream json(out);
  write(json);
  return text;
}

Work WorkOf(unsigned threads, std::uint64_t memory_bytes, bool checksums, nb::object progress) {
  return {threads, memory_bytes, checksums, std::move(progress)};
}

std::string ConvertForPython(const SourceTexts& source, const nb::bytes& out, const std::string& to,
                             const TargetSettings& target, bool verify, bool force, bool resume, unsigned threads,
                             std::uint64_t memory_bytes, nb::object progress) {
  ConvertRequest request{source, to, target, verify ? ReplicaPolicy::kCompare : ReplicaPolicy::kTrust};
  ConversionOptions destination;
  destination.destination.assign(out.c_str(), out.size());
  destination.force = force;
  destination.resume = resume;
  std::string json;
  RunJob(WorkOf(threads, memory_bytes, verify, std::move(progress)),
         [&](ExecutionOptions execution, const JobHooks& hooks) -> llvm::Error {
           CompileRequest choosing;
           UCP_ASSIGN_OR_RETURN(choosing.source, source.Request());
           choosing.settings = target;
           UCP_ASSIGN_OR_RETURN(std::vector<std::string> choice,
                                ChooseStrategy(RealFiles(), choosing, false, request.target));
           UCP_ASSIGN_OR_RETURN(ConvertReport report,
                                ConvertCheckpoint(request, destination, std::move(execution), hooks));
           std::ranges::move(choice, std::back_inserter(report.run.plan.remarks));
           json = TextOf(ConversionJson(report.run, report.outcome, destination));
           return llvm::Error::success();
         });
  return json;
}

// By all ranks of a job, of which the lowest of each machine works; nothing on ranks other than the first.
std::string ConvertTogetherForPython(PythonRanks& ranks, const SourceTexts& source, const nb::bytes& folder,
                                     const nb::bytes& out, const std::string& to, const TargetSettings& target,
                                     bool force, unsigned threads, std::uint64_t memory_bytes) {
  std::unique_ptr<SocketRanks> machines;
  RunInterruptibly([&](const std::atomic<bool>&) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(machines, MeetMachines(ranks));
    return llvm::Error::success();
  });
  std::string json;
  if (machines == nullptr) return json;
  const ConvertRequest request{source, to, target, ReplicaPolicy::kTrust};
  const std::string own_folder(folder.c_str(), folder.size());
  ConversionOptions destination;
  destination.destination.assign(out.c_str(), out.size());
  destination.force = force;
  destination.keeps_unfinished = false;  // A save cannot be resumed: the engine trains on.
  RunJob(WorkOf(threads, memory_bytes, false, nb::none()),
         [&](ExecutionOptions execution, const JobHooks& hooks) -> llvm::Error {
           execution.ranks = machines.get();
           llvm::Expected<ConvertReport> report =
               ConvertTogether(request, own_folder, destination, std::move(execution), hooks);
           machines->Leave();
           if (!report) return report.takeError();
           if (ranks.rank() == 0) json = TextOf(ConversionJson(report->run, report->outcome, destination));
           return llvm::Error::success();
         });
  return json;
}

std::string VerifyForPython(const SourceTexts& source, const nb::bytes& same, bool by_elements, bool checksums,
                            unsigned threads, std::uint64_t memory_bytes, nb::object progress) {
  VerifyRequest request;
  request.source = source;
  request.same.assign(same.c_str(), same.size());
  request.by_elements = by_elements;
  std::string json;
  RunJob(WorkOf(threads, memory_bytes, checksums, std::move(progress)),
         [&](const ExecutionOptions& execution, const JobHooks& hooks) -> llvm::Error {
           UCP_ASSIGN_OR_RETURN(const VerifyReport report, Verify(request, execution, hooks));
           json = TextBy([&](llvm::json::OStream& out) { WriteVerifyReport(report, out); });
           return llvm::Error::success();
         });
  return json;
}

std::string DiffForPython(const SourceTexts& source, const nb::bytes& other, const std::string& tensor, bool read_all,
                          unsigned threads, std::uint64_t memory_bytes, nb::object progress) {
  DiffRequest request;
  request.source = source;
  request.other.assign(other.c_str(), other.size());
  request.tensor = tensor;
  request.read_all = read_all;
  std::string json;
  RunJob(WorkOf(threads, memory_bytes, true, std::move(progress)),
         [&](ExecutionOptions execution, const JobHooks& hooks) -> llvm::Error {
           UCP_ASSIGN_OR_RETURN(const DiffOutcome outcome, Diff(request, std::move(execution), hooks));
           json = TextBy([&](llvm::json::OStream& out) { WriteDiff(outcome.report, out); });
           return llvm::Error::success();
         });
  return json;
}

std::string ExplainForPython(const SourceTexts& source, const std::string& to, const std::string& tensor) {
  std::string json;
  RunInterruptibly([&](const std::atomic<bool>&) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(SourceRequest request, source.Request());
    OpenedSpec spec;
    request.opened = &spec;
    llvm::Expected<BothSides> laid_out = LayOutBothSides(RealFiles(), request, to);
    if (!laid_out) return WithDiagnostics(laid_out.takeError(), spec);
    const BothSides& sides = *laid_out;
    const bool has_checkpoint = !sides.source.checkpoint.inventory.format.empty();
    UCP_ASSIGN_OR_RETURN(const Explanation explanation,
                         Explain({.source = sides.source.layout,
                                  .source_name = sides.source_name,
                                  .target = sides.target ? &*sides.target : nullptr,
                                  .target_name = sides.target_name,
                                  .bound = sides.source.bound ? &*sides.source.bound : nullptr,
                                  .inventory = has_checkpoint ? &sides.source.checkpoint.inventory : nullptr,
                                  .tensor_glob = tensor}));
    llvm::raw_string_ostream out(json);
    ExplainAsJson(explanation, out);
    return llvm::Error::success();
  });
  return json;
}

}  // namespace

void AddJobs(nb::module_& module) {
  module.def("convert", &ConvertForPython, nb::arg("source"), nb::arg("out"), nb::arg("to"), nb::arg("target"),
             nb::arg("verify"), nb::arg("force"), nb::arg("resume"), nb::arg("threads"), nb::arg("memory_bytes"),
             nb::arg("progress").none());
  module.def("convert_together", &ConvertTogetherForPython, nb::arg("ranks"), nb::arg("source"), nb::arg("folder"),
             nb::arg("out"), nb::arg("to"), nb::arg("target"), nb::arg("force"), nb::arg("threads"),
             nb::arg("memory_bytes"));
  module.def("verify", &VerifyForPython, nb::arg("source"), nb::arg("same"), nb::arg("by_elements"),
             nb::arg("checksums"), nb::arg("threads"), nb::arg("memory_bytes"), nb::arg("progress").none());
  module.def("diff", &DiffForPython, nb::arg("source"), nb::arg("other"), nb::arg("tensor"), nb::arg("read_all"),
             nb::arg("threads"), nb::arg("memory_bytes"), nb::arg("progress").none());
  module.def("explain", &ExplainForPython, nb::arg("source"), nb::arg("to"), nb::arg("tensor"));
}

}  // namespace ucp
