// The writer of a job's saves: a process of its own, which the job's ranks talk to (save_messages.h). It gives each
// rank a segment of memory, laid out so that ranks stage every box once, and writes what they have staged while they
// train on.
//
//   W1  No rank stages before all have called the same save, and no room of a segment is written to while it is read.
//   W2  A save that one rank does not come to within the timeout, or that ranks call with other paths, fails on all
//   that
//       came, with the ranks' numbers. No rank waits for another one but here.
//   W3  A rank that ends before it has staged makes the save fail. One that ends later does not. Where a state is
//       staged in waves, that is all of them, and those before are being written meanwhile.
//   W4  The destination appears complete or not at all, whoever dies (commit.h).
//   W5  Saves are written one after another, in the order of the calls. One that fails does not change the next.
//   W6  The process ends when all ranks have left, after what they have staged is written.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/comm/message_socket.h"
#include "runtime/storage/file_system.h"

namespace ucp {

enum class Served {
  kAll,     // All ranks have left.
  kNobody,  // Not all came, or their state cannot be saved: those that came know why.
};

// Serves the ranks that connect to `listener`, until W6. `files` is where checkpoints are written. Fails where the
// system does; the ranks get the error of a save.
llvm::Expected<Served> ServeRanks(FileSystem& files, Descriptor listener);

}  // namespace ucp
