// `ucprun memory list`, `verify` and `drop`: the versions that jobs have in this machine's memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/command_line/memory_job.h"
#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "compiler/support/printable.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/memory/memory_commands.h"
#include "runtime/manifest/check_files.h"
#include "runtime/storage/file_system.h"

namespace ucp {
namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20;
constexpr unsigned kCheckThreads = 2;

struct VersionOptions {
  std::string job;  // Empty: all.
  bool json = false;
};

struct JobInMemory {
  std::string name;
  std::string folder;
  std::vector<VersionInMemory> versions;
};

// Nothing of a part that has gone: a running job removes a version when the next one is complete.
template <typename T>
llvm::Expected<std::optional<T>> UnlessGone(const PartInMemory& part, llvm::Expected<T> found) {
  llvm::Expected<PathKind> kind = RealFiles().Kind(part.path);
  if (kind && *kind != PathKind::kDirectory) {
    llvm::consumeError(found.takeError());
    return std::nullopt;
  }
  llvm::consumeError(kind.takeError());
  if (!found) return found.takeError();
  return std::optional(std::move(*found));
}

llvm::Expected<std::optional<std::uint64_t>> BytesIn(const VersionInMemory& version) {
  std::uint64_t bytes = 0;
  for (const PartInMemory& part : version.parts) {
    UCP_ASSIGN_OR_RETURN(const auto entries, UnlessGone(part, RealFiles().List(part.path)));
    if (!entries) return std::nullopt;
    for (const DirectoryEntry& entry : *entries) bytes += entry.bytes;
  }
  return bytes;
}

llvm::Expected<bool> IsOfAJob(const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(const PathKind kind, RealFiles().Kind(JoinPath(folder, "lock")));
  return kind == PathKind::kFile;
}

// All jobs, or the one that was named, which must be there.
llvm::Expected<std::vector<JobInMemory>> FindJobs(const std::string& job) {
  std::vector<JobInMemory> jobs;
  if (!job.empty()) {
    UCP_ASSIGN_OR_RETURN(const std::string folder, FolderOfJob(job));
    UCP_ASSIGN_OR_RETURN(const bool is_one, IsOfAJob(folder));
    if (!is_one) return Fail(ErrorCode::kUsage, "`{}` is not the folder of a job: it has no file `lock`", folder);
    jobs.push_back({std::filesystem::path(folder).filename(), folder, {}});
  } else {
    const std::string directory = MemoryDirectory();
    UCP_ASSIGN_OR_RETURN(const PathKind kind, RealFiles().Kind(directory));
    if (kind != PathKind::kDirectory) return jobs;
    UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, RealFiles().List(directory));
    for (const DirectoryEntry& entry : entries) {
      if (!entry.is_directory) continue;
      const std::string folder = JoinPath(directory, entry.name);
      UCP_ASSIGN_OR_RETURN(const bool is_one, IsOfAJob(folder));
      if (is_one) jobs.push_back({entry.name, folder, {}});
    }
  }
  for (JobInMemory& one : jobs) {
    UCP_ASSIGN_OR_RETURN(one.versions, VersionsInMemory(RealFiles(), one.folder));
  }
  return jobs;
}

std::string PartsText(const VersionInMemory& version) {
  if (version.count == 1) return "whole";
  std::vector<std::int64_t> numbers;
  for (const PartInMemory& part : version.parts) numbers.push_back(part.number);
  return fmt::format("part{} {} of {}", numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "), version.count);
}

llvm::json::Object VersionJson(const JobInMemory& job, const VersionInMemory& version, std::uint64_t bytes) {
  llvm::json::Array numbers;
  for (const PartInMemory& part : version.parts) numbers.push_back(part.number);
  llvm::json::Object json{{"job", job.name},
                          {"step", version.step},
                          {"parts", std::move(numbers)},
                          {"of_parts", version.count},
                          {"bytes", static_cast<std::int64_t>(bytes)}};
  json["start"] = version.start == 0 ? llvm::json::Value(nullptr) : llvm::json::Value(version.start);
  json["whole"] = version.whole.empty() ? llvm::json::Value(nullptr) : llvm::json::Value(version.whole);
  return json;
}

llvm::Error ListVersions(const VersionOptions& options) {
  UCP_ASSIGN_OR_RETURN(const std::vector<JobInMemory> jobs, FindJobs(options.job));
  llvm::json::Array all;
  for (const JobInMemory& job : jobs) {
    for (const VersionInMemory& version : job.versions) {
      UCP_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> bytes, BytesIn(version));
      if (!bytes) continue;
      if (options.json) {
        all.push_back(VersionJson(job, version, *bytes));
      } else {
        PrintLine(fmt::format("{:<20} step {:<10} {:<24} {}", job.name, version.step, PartsText(version),
                              HumanBytes(*bytes)));
      }
    }
  }
  if (options.json) PrintJson(llvm::json::Object{{"versions", std::move(all)}});
  if (jobs.empty() && !options.json) PrintReportLine(fmt::format("no job has versions in `{}`", MemoryDirectory()));
  return llvm::Error::success();
}

// Sentences on the files of a part that are not what was written.
llvm::Expected<std::vector<std::string>> FaultsOf(const PartInMemory& part) {
  UCP_ASSIGN_OR_RETURN(const std::optional<Manifest> manifest, ReadManifest(RealFiles(), part.path));
  if (!manifest) return std::vector<std::string>{fmt::format("`{}` is missing", kManifestName)};
  return CheckFiles(RealFiles(), part.path, *manifest, kWindowBytes, {.threads = kCheckThreads});
}

llvm::Expected<int> VerifyVersions(const VersionOptions& options) {
  UCP_ASSIGN_OR_RETURN(const std::vector<JobInMemory> jobs, FindJobs(options.job));
  llvm::json::Array all;
  bool is_damaged = false;
  for (const JobInMemory& job : jobs) {
    for (const VersionInMemory& version : job.versions) {
      for (const PartInMemory& part : version.parts) {
        UCP_ASSIGN_OR_RETURN(const auto found, UnlessGone(part, FaultsOf(part)));
        if (!found) continue;
        const std::vector<std::string>& faults = *found;
        is_damaged = is_damaged || !faults.empty();
        if (options.json) {
          all.push_back(llvm::json::Object{{"path", part.path}, {"faults", llvm::json::Array(faults)}});
          continue;
        }
        for (const std::string& fault : faults) ShowMessage(fmt::format("different: `{}`: {}", part.path, fault));
        if (faults.empty()) PrintReportLine(fmt::format("`{}`: every file is what was written", part.path));
      }
    }
  }
  if (options.json) PrintJson(llvm::json::Object{{"parts", std::move(all)}});
  return is_damaged ? kFoundDifference : 0;
}

// The process that has locked a file of the job.
std::optional<std::string> ProcessThatHas(const JobInMemory& job, const std::string& name) {
  const int lock = ::open(JoinPath(job.folder, name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (lock < 0) return std::nullopt;  // It has just gone.
  const bool is_free = ::flock(lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  char text[32] = {};
  const ssize_t bytes = is_free ? 0 : ::pread(lock, text, sizeof text - 1, 0);
  ::close(lock);
  if (is_free) return std::nullopt;
  return bytes > 0 ? Printable(std::string_view(text).substr(0, std::string_view(text).find('\n'))) : "unknown";
}

// Fails (kUsage) while the job runs, or what writes for it.
llvm::Error RefuseRunning(const JobInMemory& job) {
  if (const auto process = ProcessThatHas(job, "lock")) {
    return Fail(ErrorCode::kUsage, "the job `{}` runs, as process {}; its versions are dropped when it has ended",
                job.name, *process);
  }
  if (const auto process = ProcessThatHas(job, "writers")) {
    return Fail(ErrorCode::kUsage,
                "process {} still writes for the job `{}`; its versions are dropped when that process has ended",
                *process, job.name);
  }
  return llvm::Error::success();
}

llvm::Error DropVersions(const VersionOptions& options) {
  UCP_ASSIGN_OR_RETURN(const std::vector<JobInMemory> jobs, FindJobs(options.job));
  for (const JobInMemory& job : jobs) {
    UCP_RETURN_IF_ERROR(RefuseRunning(job));
    UCP_RETURN_IF_ERROR(RealFileSystem().RemoveTree(job.folder));
    if (options.json) PrintJson(llvm::json::Object{{"dropped", job.folder}});
    if (!options.json) PrintReportLine(fmt::format("dropped `{}`", job.folder));
  }
  return llvm::Error::success();
}

CLI::App* AddVersionsCommand(CLI::App& memory, const std::string& name, const std::string& help, bool needs_job,
                             const std::shared_ptr<VersionOptions>& options) {
  CLI::App* command = memory.add_subcommand(name, help);
  CLI::Option* job = command->add_option("JOB", options->job, "The job's name, or its folder");
  if (needs_job) job->required();
  command->add_flag("--json", options->json, "The same as JSON");
  return command;
}

}  // namespace

void AddMemoryListCommand(CLI::App& memory, int& exit_code) {
  auto options = std::make_shared<VersionOptions>();
  CLI::App* command =
      AddVersionsCommand(memory, "list", "The versions of jobs in this machine's memory.", false, options);
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = ListVersions(*options)) exit_code = ShowError("ucprun", std::move(error), options->json);
  });
}

void AddMemoryVerifyCommand(CLI::App& memory, int& exit_code) {
  auto options = std::make_shared<VersionOptions>();
  CLI::App* command =
      AddVersionsCommand(memory, "verify", "Check that they are what was written. Exit code 3 if not.", false, options);
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    llvm::Expected<int> code = VerifyVersions(*options);
    exit_code = code ? *code : ShowError("ucprun", code.takeError(), options->json);
  });
}

void AddMemoryDropCommand(CLI::App& memory, int& exit_code) {
  auto options = std::make_shared<VersionOptions>();
  CLI::App* command =
      AddVersionsCommand(memory, "drop", "Remove all versions of a job that does not run.", true, options);
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = DropVersions(*options)) exit_code = ShowError("ucprun", std::move(error), options->json);
  });
}

}  // namespace ucp
