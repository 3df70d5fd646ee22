#include "runtime/resources/io_of_run.h"

#include <fmt/format.h>

#include "compiler/plan/plan_report.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"
#include "runtime/storage/open_file_limit.h"

namespace ucp {
namespace {

// Those that this rank sees.
std::vector<FileToRead> FilesOf(const Plan& plan, const std::string& source_folder, const SourceOfNodes* nodes) {
  std::vector<FileToRead> files;
  for (std::size_t number = 0; number < plan.source.files.size(); ++number) {
    if (nodes != nullptr && nodes->IsElsewhere(FileId(number))) continue;
    const StoredFile& file = plan.source.files[number];
    files.push_back({JoinPath(source_folder, file.path), file.bytes});
  }
  return files;
}

// Of what is written already, nothing is read again; about the same part of both is left.
std::uint64_t BytesToRead(const std::vector<FileToRead>& files, const BytesToDo& to_write) {
  double bytes = 0;
  for (const FileToRead& file : files) bytes += static_cast<double>(file.bytes);
  if (to_write.left < to_write.all) bytes *= static_cast<double>(to_write.left) / static_cast<double>(to_write.all);
  return static_cast<std::uint64_t>(bytes);
}

IoOfRun Both(bool directly, const std::string& reason) {
  return {IoChoice{directly, reason, 0, 0}, IoChoice{directly, reason, 0, 0}};
}

llvm::Expected<IoOfRun> ByTrial(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                const TargetToFill& target, const ExecutionOptions& execution) {
  TrialOptions trial;
  trial.threads = execution.threads;
  trial.memory_bytes = execution.memory_bytes;
  trial.cancelled = execution.cancelled;
  IoOfRun chosen;
  chosen.writing.reason = "this rank writes nothing";
  if (!target.folder.empty()) {
    UCP_ASSIGN_OR_RETURN(chosen.writing, ChooseWriting(files, target.folder, target.bytes.left, trial));
  }
  const std::vector<FileToRead> to_read = FilesOf(plan, source_folder, execution.nodes);
  chosen.reading = ChooseReading(files, to_read, BytesToRead(to_read, target.bytes), trial);
  return chosen;
}

std::string Sentence(const char* what, const IoChoice& choice) {
  return fmt::format("large files are {} {} the page cache: {}", what, choice.directly ? "past" : "through",
                     choice.reason);
}

}  // namespace

llvm::json::Object IoChoiceJson(const IoChoice& choice) {
  llvm::json::Object json{{"means", choice.directly ? "direct" : "buffered"}, {"reason", choice.reason}};
  if (choice.buffered_bytes_per_second > 0) {
    json["buffered_bytes_per_second"] = choice.buffered_bytes_per_second;
    json["direct_bytes_per_second"] = choice.direct_bytes_per_second;
  }
  return json;
}

std::vector<std::string> IoOfRun::Sentences(bool has_source) const {
  if (!has_source) return {Sentence("written", writing)};
  return {Sentence("read", reading), Sentence("written", writing)};
}

llvm::json::Object IoOfRun::Json(bool has_source) const {
  llvm::json::Object json{{"writing", IoChoiceJson(writing)}};
  if (has_source) json["reading"] = IoChoiceJson(reading);
  return json;
}

llvm::Expected<OpenFileShares> OpenFilesBy(DirectIo means, unsigned threads) {
  const std::uint64_t limit = OpenFileLimit();
  if (!means.reads_directly && !means.writes_directly) return DivideOpenFiles(limit, threads);
  llvm::Expected<OpenFileShares> shares = DivideOpenFiles(limit / 2, threads);
  if (shares) return shares;
  llvm::consumeError(shares.takeError());
  return Fail(
      ErrorCode::kUsage,
      "past the page cache every file is opened twice, and this process may have {} open at once (`ulimit -n`), "
      "too few for {} so; raise the limit, lower {}, or pass {}",
      limit, Counted(threads, "thread"), OptionName(UserOption::kThreads), OptionName(UserOption::kIo, "buffered"));
}

llvm::Expected<IoOfRun> ChooseIo(FileSystem& files, const Plan& plan, const std::string& source_folder,
                                 const TargetToFill& target, IoMode wanted, const std::string& why_buffered,
                                 const ExecutionOptions& execution) {
  if (wanted != IoMode::kAuto)
    return Both(wanted == IoMode::kDirect, fmt::format("so {} says", OptionName(UserOption::kIo)));
  if (!why_buffered.empty()) return Both(false, why_buffered);
  return ByTrial(files, plan, source_folder, target, execution);
}

}  // namespace ucp
