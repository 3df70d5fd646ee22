// Who started this process: mpirun and srun say so in the environment.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/comm/communicator.h"
#include "runtime/comm/rank_watch.h"

namespace ucp {

// The ranks of this run: of MPI if a launcher started this process as one of several, else this process alone. Opens
// MPI at the first call, which takes a third of a second. Fails under such a launcher if this build has no MPI: the
// ranks would all do the same work and disturb each other (kUsage).
llvm::Expected<Communicator*> RanksOfThisRun();

// The same, watched (rank_watch.h) until LeaveRanks(). `tell` shows why the run ends; then all ranks end, with
// `status`.
llvm::Expected<Communicator*> WatchedRanksOfThisRun(const RankPatience& patience, int status,
                                                    std::function<void(const std::string& sentence)> tell);

// How many ranks the launcher started on this machine, as far as it says so.
unsigned RanksOnThisMachine();

// The processors this process may run on, which in a container are fewer than the machine has. Ranks that a launcher
// did not bind to processors of their own share them.
unsigned ProcessorsOfThisRank();

// Which of them this process is, likewise; 0 if it does not say.
int RankOnThisMachine();

// Whether this process prints what concerns all ranks: rank 0 does.
bool SpeaksForAllRanks();

// Whether a launcher started several ranks and this is not the first, as far as it says so.
bool IsLaterRank();

// The same, for a command that is the work of one process: the others have nothing to do, and rank 0 may use their
// processors.
bool LeavesWorkToFirstRank();

// Leaves MPI, if it was opened. Call at the end of the program, whatever came before.
void LeaveRanks();

// "MPI", or "no MPI", for --version.
const char* MpiSupport();

}  // namespace ucp
