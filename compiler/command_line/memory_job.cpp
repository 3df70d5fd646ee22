#include "compiler/command_line/memory_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <tuple>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::string_view kPrefix = "memory:";

std::optional<std::int64_t> NumberOf(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_plain = error == std::errc() && end == digits.data() + digits.size() && !digits.starts_with('-');
  return is_plain ? std::optional(number) : std::nullopt;
}

// "000003-5f3a9c02-1200"
std::optional<VersionInMemory> VersionOf(std::string_view name) {
  const std::size_t first = name.find('-');
  const std::size_t second = name.rfind('-');
  if (first == std::string_view::npos || second == first) return std::nullopt;
  const std::optional<std::int64_t> start = NumberOf(name.substr(0, first));
  const std::optional<std::int64_t> step = NumberOf(name.substr(second + 1));
  if (!start || !step) return std::nullopt;
  VersionInMemory version;
  version.start = *start;
  version.step = *step;
  return version;
}

// "0-of-3"
std::optional<std::pair<std::int64_t, std::int64_t>> PartNamed(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  const std::size_t of = name.find(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  const std::optional<std::int64_t> number = NumberOf(name.substr(0, of));
  const std::optional<std::int64_t> count = NumberOf(name.substr(of + kOf.size()));
  if (!number || !count || *number >= *count) return std::nullopt;
  return std::pair(*number, *count);
}

// None in a folder that is not there: a running job removes its versions at any moment.
llvm::Expected<std::vector<DirectoryEntry>> FoldersIn(ReadableFileSystem& files, const std::string& folder) {
  llvm::Expected<std::vector<DirectoryEntry>> entries = files.List(folder);
  if (!entries) {
    llvm::Expected<PathKind> kind = files.Kind(folder);
    if (!kind || *kind == PathKind::kDirectory) {
      llvm::consumeError(kind.takeError());
      return entries.takeError();
    }
    llvm::consumeError(entries.takeError());
    return std::vector<DirectoryEntry>();
  }
  std::erase_if(*entries, [](const DirectoryEntry& entry) { return !entry.is_directory || entry.is_link; });
  return entries;
}

llvm::Error AddParts(ReadableFileSystem& files, const std::string& folder, VersionInMemory& version) {
  UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, FoldersIn(files, folder));
  for (const DirectoryEntry& entry : entries) {
    if (entry.name == "whole") version.whole = JoinPath(folder, entry.name);
    const auto part = PartNamed(entry.name);
    if (!part) continue;
    version.count = part->second;
    version.parts.push_back({part->first, JoinPath(folder, entry.name)});
  }
  std::ranges::sort(version.parts, {}, &PartInMemory::number);
  return llvm::Error::success();
}

// Of the folders of a job, which has one machine or several.
llvm::Expected<std::string> NewestWhole(ReadableFileSystem& files, const std::string& job) {
  UCP_ASSIGN_OR_RETURN(const std::string folder, FolderOfJob(job));
  UCP_ASSIGN_OR_RETURN(const PathKind mark, files.Kind(JoinPath(folder, "engine")));
  if (mark == PathKind::kFile) {
    return Fail(
        ErrorCode::kUsage,
        "the versions in `{}` are of a DeepSpeed engine: `python3 -m ucp_checkpoint.engine_folder memory:{} OUT` "
        "writes the newest one as DeepSpeed's folder, which is read",
        folder, job);
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<VersionInMemory> versions, VersionsInMemory(files, folder));
  for (const VersionInMemory& version : versions) {
    if (!version.whole.empty()) return version.whole;
  }
  if (versions.empty()) return Fail(ErrorCode::kUsage, "there are no versions of a job in `{}`", folder);
  std::vector<std::int64_t> numbers;
  for (const PartInMemory& part : versions.front().parts) numbers.push_back(part.number);
  return Fail(ErrorCode::kUsage,
              "of step {} in `{}`, this machine has the part{} {} of {}; the others are on other machines of the job",
              versions.front().step, folder, numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "),
              versions.front().count);
}

}  // namespace

std::string MemoryDirectory() {
  const char* given = std::getenv("UCP_MEMORY_DIRECTORY");
  return given != nullptr && *given != '\0' ? given : fmt::format("/dev/shm/ucp-{}", ::geteuid());
}

llvm::Expected<std::string> FolderOfJob(const std::string& job) {
  const std::size_t slash = job.rfind('/');
  const std::string name = slash == std::string::npos ? job : job.substr(slash + 1);
  const bool is_name = !name.empty() && name.size() <= 100 && !name.starts_with('.') &&
                       std::ranges::all_of(name, [](unsigned char letter) {
                         return std::isalnum(letter) != 0 || letter == '_' || letter == '.' || letter == '-';
                       });
  if (!is_name) {
    return Fail(ErrorCode::kUsage,
                "a job has a name of letters, digits, `_`, `-` and dots, perhaps behind a folder, not `{}`", job);
  }
  return slash == std::string::npos ? JoinPath(MemoryDirectory(), name) : job;
}

llvm::Expected<std::vector<VersionInMemory>> VersionsInMemory(ReadableFileSystem& files, const std::string& folder) {
  std::vector<VersionInMemory> versions;
  const std::string parts = JoinPath(folder, "parts");
  UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> of_parts, FoldersIn(files, parts));
  std::int64_t newest = 0;
  for (const DirectoryEntry& entry : of_parts) {
    std::optional<VersionInMemory> version = VersionOf(entry.name);
    if (!version) continue;
    UCP_RETURN_IF_ERROR(AddParts(files, JoinPath(parts, entry.name), *version));
    newest = std::max(newest, version->start);
    if (!version->parts.empty()) versions.push_back(std::move(*version));
  }
  UCP_ASSIGN_OR_RETURN(const std::vector<DirectoryEntry> entries, FoldersIn(files, folder));
  for (const DirectoryEntry& entry : entries) {
    const auto step = entry.name.starts_with("step-") ? NumberOf(std::string_view(entry.name).substr(5)) : std::nullopt;
    if (!step) continue;
    const std::string path = JoinPath(folder, entry.name);
    versions.push_back({.start = 0, .step = *step, .count = 1, .parts = {PartInMemory{0, path}}, .whole = path});
  }
  // A whole one is of the newest start, unless it is older.
  const auto age = [&](const VersionInMemory& version) {
    return std::tuple(version.start == 0 ? newest : version.start, version.step);
  };
  std::ranges::stable_sort(versions, std::ranges::greater(), age);
  return versions;
}

CLI::Validator MemoryJobs() {
  return {[](std::string& text) -> std::string {
            if (!text.starts_with(kPrefix)) return "";
            llvm::Expected<std::string> found = NewestWhole(RealFiles(), text.substr(kPrefix.size()));
            if (!found) return TakeFailure(found.takeError()).message;
            text = std::move(*found);
            return "";
          },
          ""};
}

}  // namespace ucp
