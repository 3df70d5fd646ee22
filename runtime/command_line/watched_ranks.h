// How a program gets the ranks of its run, and ends for all of them.
#pragma once

#include <llvm/Support/Error.h>
#include <CLI/App.hpp>

#include "runtime/comm/communicator.h"

namespace ucp {

// The ranks of this run, of which none waits for ever for another one that does not answer (rank_watch.h): all end
// then, with exit code 2, and one says why. `patience` in seconds, 0: for ever. `can_resume`: the command has --resume.
inline constexpr unsigned kRankPatience = 300;
llvm::Expected<Communicator*> WatchedRanks(unsigned patience, bool can_resume);

// Returns the exit code for an error that all ranks have; one of them says it.
int EndWith(llvm::Error error, bool json);

void AddRankTimeoutOption(CLI::App& command, unsigned& patience);

}  // namespace ucp
