// The machines that keep copies of others' state in their memory: the mixed placement of Gemini (SOSP '23, section 4
// and algorithm 1), over machines that are ordered by failure domain.
//
// Each machine keeps its own state. With k copies, groups of k machines keep one another's. Where k does not divide the
// number of machines, the last ones, more than k and fewer than 2 k, are a ring: each sends its state to the k - 1
// before it. So every machine sends and receives k - 1 states, whatever their number. State is lost with all machines
// of a group, or with k neighbours of the ring.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ucp {

struct Placement {
  std::vector<std::int64_t> order;  // The machines by place. Groups are of neighbours.
  std::int64_t copies = 1;          // k: of each machine's state, its own included.
  std::int64_t groups = 0;          // At the places 0 to groups * copies.
  std::int64_t ring = 0;            // At the places behind them.
};

// Places `machines` so that neighbours are of different domains as far as possible. `domains`: the failure domain of
// each machine, such as its rack; empty: each is its own. Fails (kUsage) without a machine, and for fewer copies than
// one or more than there are machines.
llvm::Expected<Placement> PlaceMachines(std::int64_t machines, std::int64_t copies,
                                        llvm::ArrayRef<std::string> domains = {});

// Returns the places of the machines that keep the state of the one at `place`, which is the first of them.
std::vector<std::int64_t> KeepersOf(const Placement& placement, std::int64_t place);

// Returns whether a copy of every machine's state is left without the machines `lost`.
bool IsRecoverable(const Placement& placement, llvm::ArrayRef<std::int64_t> lost);

// Returns the chance of that where so many machines are lost at the same time, each set of them as likely. Exact.
double ChanceOfRecovery(const Placement& placement, std::int64_t lost);

}  // namespace ucp
