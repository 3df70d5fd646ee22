// What a load will do: a conversion whose target files are memory. The target is laid out as if its files were written;
// a rank then loads the files that a rank of such a job would open.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/plan/plan.h"
#include "runtime/comm/communicator.h"
#include "runtime/formats/file_readers.h"
#include "runtime/io/file_system.h"
#include "runtime/io/seen_files.h"

namespace ucp {

struct LoadPlan {
  Plan plan;
  FileReaders readers;                       // Of the target's files.
  std::string source_folder;                 // What the paths of the source's files are relative to.
  std::vector<FileVersion> source_versions;  // By FileId of the source; what the headers were read of.

  std::vector<FileId> FilesOf(int rank) const;      // That the rank opens, in order.
  std::vector<RecordId> RecordsOf(int rank) const;  // Of these files, in order.
};

// Describes, binds, lays out, plans and verifies at rank 0, and gives the result to all ranks; so headers are read once
// a job. All call this with the same request. A job of several ranks has as many as the target has, else it is refused
// before anything is read (kUsage). `compilation` is filled at rank 0 as far as it comes, but for the plan, so that a
// spec's diagnostics can be shown.
llvm::Expected<LoadPlan> CompileLoad(FileSystem& files, const CompileRequest& request, Communicator& ranks,
                                     Compilation& compilation);

// Rank 0 gives its verified plan to all.
llvm::Expected<LoadPlan> ShareLoad(Communicator& ranks, LoadPlan load);

}  // namespace ucp
