// Checkpoints that jobs keep in the memory of their machines (docs/memory-tier.md), by the name of the job:
//
//   DIRECTORY/JOB/lock                              held while the job runs
//   DIRECTORY/JOB/step-N                            a whole version, of a job on one machine
//   DIRECTORY/JOB/parts/EPOCH-WORLD-N/0-of-3        a part of a version, of a job on three
//   DIRECTORY/JOB/parts/EPOCH-WORLD-N/whole         all of them as one checkpoint, where all are here
#pragma once

#include <llvm/Support/Error.h>
#include <CLI/App.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp {

struct PartInMemory {
  std::int64_t number = 0;
  std::string path;
};

struct VersionInMemory {
  std::int64_t start = 0;  // Of the job, counted; 0: not known.
  std::int64_t step = 0;
  std::int64_t count = 1;           // Of its parts, wherever they are.
  std::vector<PartInMemory> parts;  // Those on this machine, which are complete; by number.
  std::string whole;                // A folder that any command reads; empty if parts are missing.
};

// UCP_MEMORY_DIRECTORY, else /dev/shm/ucp-UID.
std::string MemoryDirectory();

// Returns the folder of a job, which need not be there: in MemoryDirectory() unless `job` has a folder before its name.
// Fails (kUsage) for a text that is not a job's name.
llvm::Expected<std::string> FolderOfJob(const std::string& job);

// The newest first; none if the folder is not there.
llvm::Expected<std::vector<VersionInMemory>> VersionsInMemory(ReadableFileSystem& files, const std::string& folder);

// For CLI::Option::transform() of a checkpoint: `memory:JOB` is the newest version that is whole on this machine.
CLI::Validator MemoryJobs();

}  // namespace ucp
