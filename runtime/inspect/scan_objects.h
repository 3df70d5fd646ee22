// Every class and function that the pickles below a folder name: a scanner for files of unknown origin. Only headers
// are read, and nothing of a file is run.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/objects/file_objects.h"

namespace ucp {

struct ScannedFile {
  std::string path;  // Relative to the folder; of a single file, its own.
  objects::FileObjects objects;
};

struct ObjectScan {
  std::string path;
  std::uint64_t files = 0;           // Looked at, pickles or not.
  std::vector<ScannedFile> pickles;  // By path.
};

// `path` is a file, or a folder of any kind. Folders behind links are not entered. Fails (kIo) only if the path or a
// folder cannot be read; faults of a file are in the result.
llvm::Expected<ObjectScan> ScanObjects(ReadableFileSystem& files, const std::string& path);

// Returns whether all that the pickles hold is known.
bool IsSafe(const ObjectScan& scan);

}  // namespace ucp
