#include "runtime/command_line/work_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/command_line/value_checks.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/interrupt.h"
#include "runtime/storage/open_file_limit.h"

namespace ucp {
namespace {

constexpr unsigned kMostThreads = 256;

}  // namespace

unsigned ThreadsOf(const WorkOptions& options) {
  return options.threads == 0 ? std::min(ProcessorsOfThisRank(), kMostThreads) : options.threads;
}

llvm::Expected<ExecutionOptions> ExecutionOptionsFrom(const WorkOptions& options) {
  ExecutionOptions execution;
  execution.threads = ThreadsOf(options);
  std::optional<std::uint64_t> memory = ParseByteCount(options.memory);
  if (!memory) {
    return Fail(ErrorCode::kUsage, "--memory takes a size such as 256MiB or 4GB, not `{}`", options.memory);
  }
  execution.memory_bytes = *memory;
  UCP_ASSIGN_OR_RETURN(execution.open_files, DivideOpenFiles(OpenFileLimit(), execution.threads));
  execution.verify_source_crc = !options.ignore_crc;
  execution.cancelled = &WatchForInterrupts();
  return execution;
}

void AddThreadsOption(CLI::App& command, WorkOptions& options) {
  command.add_option("--threads", options.threads, "Default: one for each processor this process may use")
      ->check(WholeNumber(1, kMostThreads))
      ->type_name("N");
}

void AddWorkOptions(CLI::App& command, WorkOptions& options) {
  AddThreadsOption(command, options);
  command.add_option("--memory", options.memory, "The most memory to use; default 1GiB")->type_name("SIZE");
  command.add_flag("--json", options.json, "The report as JSON on standard output");
}

void AddIgnoreCrcOption(CLI::App& command, WorkOptions& options) {
  command.add_flag("--ignore-crc", options.ignore_crc,
                   "Do not check the source's zip checksums; for files saved with checksums switched off");
}

void AddIoOption(CLI::App& command, IoMode& wanted) {
  const auto means = [](std::string& text) -> std::string {
    static const std::map<std::string, IoMode> kWanted = {
        {"auto", IoMode::kAuto}, {"buffered", IoMode::kBuffered}, {"direct", IoMode::kDirect}};
    const auto named = kWanted.find(text);
    if (named == kWanted.end()) return fmt::format("takes auto, buffered or direct, not `{}`", text);
    text = std::to_string(static_cast<int>(named->second));
    return "";
  };
  command
      .add_option("--io", wanted,
                  "buffered: large files through the system's page cache; direct: past it, where the file system can; "
                  "auto (default): the one that a short trial shows to be faster")
      ->transform(CLI::Validator(means, ""))
      ->type_name("auto|buffered|direct");
}

void AddNodeLocalOption(CLI::App& command, NodeLocal& node_local, NodeLocalUse use) {
  const bool writes = use == NodeLocalUse::kWrites;
  std::string text =
      "Data that is spread over the nodes' own disks; the ranks of mpirun send one another what they "
      "need. source: the checkpoint";
  if (writes) text += "; destination: OUT, of which each node gets what its ranks of the job open";
  const auto check = [writes](const std::string& word) -> std::string {
    if (word == "source" || (word == "destination" && writes)) return "";
    return fmt::format("takes {}, not `{}`", writes ? "`source`, `destination` or both with a comma" : "`source`",
                       word);
  };
  const auto take = [&node_local](const std::vector<std::string>& words) {
    for (const std::string& word : words) (word == "source" ? node_local.source : node_local.destination) = true;
  };
  command.add_option_function<std::vector<std::string>>("--node-local", take, text)
      ->check(check)
      ->type_name("WHAT")
      ->delimiter(',')
      ->allow_extra_args(false);
}

}  // namespace ucp
