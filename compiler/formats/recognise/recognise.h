// Finds the checkpoint that a path means. The folder that users name is often not the checkpoint itself but the root
// around it, or a file inside.
//
// Levels are looked at one after the other, and at each of them every format is asked. A find at one level is the
// answer, whatever lies below:
//
//   the folder itself   it is a checkpoint, or its file `latest` names one
//   the folders in it   if nothing is: the only one that is a checkpoint, or a root with a file `latest`
//
// Two answers at one level are an error that names both, and so is a `latest` that leads nowhere: the user has to say
// which one is meant. But weights that stand beside a checkpoint, as trainers keep them, are passed over with a remark.
// Hidden folders are never found through the folder around them.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"

namespace ucp {

struct Recognised {
  const Format* format = nullptr;
  std::string folder;                // The checkpoint proper; of a single model file, that file.
  std::vector<std::string> remarks;  // Sentences: what was passed over, and which links lead out of what was named.
};

// Fails with kIo if nothing is there, with kUnsupported if no format knows it (the message lists what each looks for),
// with kBadData if it is broken, ambiguous, or the unfinished work of a conversion.
llvm::Expected<Recognised> RecogniseAny(ReadableFileSystem& files, const std::string& path);

// Fails (kBadData) for a folder in which a conversion is being prepared, and for files in it.
[[nodiscard]] llvm::Error RefuseUnfinished(const std::string& path);

}  // namespace ucp
