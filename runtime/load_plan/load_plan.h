// The plan of a load: a conversion whose target files are memory. The target is laid out as if its files were written;
// a rank then loads the files that a rank of such a job would open.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile/compile.h"
#include "compiler/plan/plan.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/share_run.h"

namespace ucp {

struct LoadPlan {
  Plan plan;                       // Of a rank among several: what it needs of it.
  FileReaders readers;             // Of the target's files.
  std::string source_folder;       // The folder of the paths of the source's files.
  CheckpointIdentity source = {};  // At the rank that planned.
  int rank = 0;                    // The rank of the target's job that this process is, if it is one of several.
  // By RecordId of the target: the id that all ranks use for the record; ascending. Empty: the same.
  std::vector<RecordId> records = {};
  // By FileId of the source: the versions of the files whose headers were read, at the rank that planned.
  std::vector<FileVersion> source_versions = {};

  std::vector<FileId> FilesOf(int of_rank) const;      // That the rank opens, in order.
  std::vector<RecordId> RecordsOf(int of_rank) const;  // Of these files, in order.
  RecordId NameOf(RecordId record) const { return records.empty() ? record : records[record.index()]; }
  std::optional<RecordId> Find(RecordId name) const;  // The record that all ranks call so, if it is here.
  // Returns the records here whose names are in [first, end), ascending.
  std::vector<RecordId> Between(std::uint64_t first, std::uint64_t end) const;
};

// The request of a job.
struct LoadRequest {
  CompileRequest compile;
  // File names, without folders, that this rank opens: of jobs that may count their ranks otherwise than the target
  // does. It is then the rank of the target that opens them all. Empty: the ranks are those of the target.
  std::vector<std::string> opens = {};
  bool is_checked = false;  // The source will be checked, for which every rank needs the whole plan.
};

// Describes, binds, lays out, plans and verifies at rank 0, where ranks help to read the headers, and gives every rank
// its part of the result. All call this with the same request. A job of several ranks has as many as the target has,
// else it is refused before anything is read (kUsage).
llvm::Expected<LoadPlan> CompileLoad(ReadableFileSystem& files, const LoadRequest& request, Communicator& ranks);

}  // namespace ucp
