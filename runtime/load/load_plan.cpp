#include "runtime/load/load_plan.h"

#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/executor/saved_progress.h"
#include "runtime/executor/share_run.h"

namespace ucp {
namespace {

llvm::Error CheckRanks(int ranks, int ranks_of_target, const std::string& target) {
  if (ranks == 1 || ranks_of_target == 0 || ranks == ranks_of_target) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "`{}` is a job of {} ranks, and {} load; start as many, or load the files of one rank alone", target,
              ranks_of_target, ranks);
}

llvm::Expected<LoadPlan> CompileAlone(FileSystem& files, const CompileRequest& request, int ranks,
                                      Compilation& compilation) {
  SeenFiles seen(files);
  UCP_RETURN_IF_ERROR(Compile(seen, request, compilation));
  LoadPlan load;
  load.plan = std::move(compilation.plan);
  load.source_folder = compilation.source.folder;
  load.source_versions = VersionsOf(seen, load.plan, load.source_folder);
  load.readers = std::move(compilation.readers);
  UCP_RETURN_IF_ERROR(CheckRanks(ranks, load.readers.ranks, request.target));
  return load;
}

std::string Encode(const FileReaders& readers) {
  ProgressWriter writer;
  writer.Add(static_cast<std::uint64_t>(readers.ranks));
  writer.Add(readers.sets.size());
  for (const std::vector<int>& set : readers.sets) {
    writer.Add(set.size());
    for (int rank : set) writer.Add(static_cast<std::uint64_t>(rank));
  }
  writer.Add(readers.set_of_file.size());
  for (std::uint32_t set : readers.set_of_file) writer.Add(std::uint64_t{set});
  return writer.bytes();
}

FileReaders Decode(const std::string& bytes) {
  ProgressReader reader(bytes);
  FileReaders readers;
  readers.ranks = static_cast<int>(reader.Number());
  readers.sets.resize(reader.Count());
  for (std::vector<int>& set : readers.sets) {
    set.resize(reader.Count());
    for (int& rank : set) rank = static_cast<int>(reader.Number());
  }
  readers.set_of_file.resize(reader.Count());
  for (std::uint32_t& set : readers.set_of_file) set = static_cast<std::uint32_t>(reader.Number());
  UCP_CHECK(!reader.has_failed() && reader.left().empty(), "rank 0 sent {} bytes of readers", bytes.size());
  return readers;
}

}  // namespace

std::vector<FileId> LoadPlan::FilesOf(int rank) const {
  std::vector<FileId> files;
  for (std::size_t file = 0; file < plan.target.files.size(); ++file) {
    if (readers.IsReadBy(FileId(file), rank)) files.push_back(FileId(file));
  }
  return files;
}

std::vector<RecordId> LoadPlan::RecordsOf(int rank) const {
  std::vector<RecordId> records;
  for (std::size_t record = 0; record < plan.target.records.size(); ++record) {
    if (readers.IsReadBy(plan.target.records[record].file, rank)) records.push_back(RecordId(record));
  }
  return records;
}

llvm::Expected<LoadPlan> CompileLoad(FileSystem& files, const CompileRequest& request, Communicator& ranks,
                                     Compilation& compilation) {
  if (ranks.size() == 1) return CompileAlone(files, request, 1, compilation);
  LoadPlan load;
  llvm::Error error = llvm::Error::success();
  if (ranks.rank() == 0) {
    llvm::Expected<LoadPlan> compiled = CompileAlone(files, request, ranks.size(), compilation);
    if (compiled) load = std::move(*compiled);
    error = compiled.takeError();
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, std::move(error)));
  return ShareLoad(ranks, std::move(load));
}

llvm::Expected<LoadPlan> ShareLoad(Communicator& ranks, LoadPlan load) {
  if (ranks.size() == 1) return load;
  UCP_ASSIGN_OR_RETURN(std::string readers, FromFirstRank(ranks, Encode(load.readers)));
  UCP_ASSIGN_OR_RETURN(PlannedRun run, ShareRun(ranks, PlannedRun{std::move(load.plan), std::move(load.source_folder),
                                                                  std::move(load.source_versions)}));
  return LoadPlan{std::move(run.plan), Decode(readers), std::move(run.source_folder), std::move(run.source_versions)};
}

}  // namespace ucp
