// A save carried out by its writers, one on each machine of the job: the first one plans it, and all write.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "runtime/jobs/save/save.h"
#include "runtime/storage/file_system.h"

namespace ucp {

// All writers of `execution.ranks`, which must be set, call it together. `files` has the segments of this machine's
// ranks in kJobFolder, and those of no others. `state` and the values count at the first writer alone; elsewhere
// `state` may be null. Otherwise as SaveState().
llvm::Expected<SaveReport> SaveTogether(FileSystem& files, const JoinedState* state, const SaveRequest& request,
                                        ConversionOptions destination, ExecutionOptions execution);

// Removes what an earlier writer, whose lock is gone with it, has left beside the destination `path`. Of a checkpoint
// in parts the hidden folder stays while there is one at `path`: it may be the part that stood there before, where the
// new parts of other machines did not appear.
void RemoveRemains(FileSystem& files, const std::string& path, bool is_in_parts);

}  // namespace ucp
