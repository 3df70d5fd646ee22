// The formats' claims on one level on the way to a checkpoint (recognise.h), and which of them counts.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/format.h"
#include "compiler/formats/recognise/recognise.h"

namespace ucp {

struct Claim {
  const Format* format = nullptr;
  std::string folder;    // The checkpoint.
  std::string named_by;  // The file that names it; empty: it is the level itself.
};
using Claims = std::vector<Claim>;

// Returns the claims that the folder is a checkpoint.
llvm::Expected<Claims> ClaimsOnItself(ReadableFileSystem& files, const std::string& folder);

// Returns the claims of the folder that the format's latest file in `root` names. Fails as FollowLatest() does.
llvm::Expected<Claims> ClaimsByLatest(ReadableFileSystem& files, const std::string& root, const Format& format);

// Returns the one of several claims that is meant: weights alone yield, with a remark, to a checkpoint that they stand
// beside. Fails (kBadData) if that leaves several. `level` is where they were found.
llvm::Expected<Recognised> Decide(ReadableFileSystem& files, const Claims& claims, const std::string& level);

}  // namespace ucp
