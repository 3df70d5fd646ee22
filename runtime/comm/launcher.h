// The launcher of this process: mpirun and srun say so in the environment.
#pragma once

#include <llvm/Support/Error.h>

#include "runtime/comm/communicator.h"
#include "runtime/comm/rank_watch.h"

namespace ucp {

// Returns the ranks of this run: of MPI if a launcher started this process as one of several, else this process alone.
// Opens MPI at the first call, which takes a third of a second. Fails under such a launcher if this build has no MPI:
// the ranks would all do the same work and disturb each other (kUsage).
llvm::Expected<Communicator*> RanksOfThisRun();

// The same, watched (rank_watch.h) until LeaveRanks(). `end` is called, from a thread of the watch, when the run cannot
// go on: with a sentence that says why at the rank that found out, and with an empty one at the others. It ends this
// process.
llvm::Expected<Communicator*> WatchedRanksOfThisRun(const RankPatience& patience,
                                                    std::function<void(const std::string& sentence)> end);

// Asks MPI to end the processes of all ranks with `status`. This process may still live when it returns.
void AbortRanks(int status);

// Returns how many ranks the launcher started on this machine, as far as it says so.
unsigned RanksOnThisMachine();

// Returns the processors this process may run on, which in a container are fewer than the machine has. Ranks that a
// launcher did not bind to processors of their own share them.
unsigned ProcessorsOfThisRank();

// Returns the rank of this process, likewise; 0 if it does not say.
int RankOnThisMachine();

// Returns whether this process prints messages that concern all ranks: rank 0 does.
bool SpeaksForAllRanks();

// Returns whether a launcher started several ranks and this is not the first, as far as it says so.
bool IsLaterRank();

// The same, for a command that is the work of one process: the others have nothing to do, and rank 0 may use their
// processors.
bool LeavesWorkToFirstRank();

// Leaves MPI, if it was opened. Call at the end of the program, whatever came before.
void LeaveRanks();

// "MPI", or "no MPI", for --version.
const char* MpiSupport();

}  // namespace ucp
