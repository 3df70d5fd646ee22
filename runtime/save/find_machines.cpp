#include "runtime/save/find_machines.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "compiler/support/error.h"
#include "runtime/comm/machine_socket.h"
#include "runtime/comm/nodes.h"

namespace ucp {

std::string NameOfThisMachine() {
  if (const char* chosen = std::getenv("UCP_MACHINE"); chosen != nullptr && *chosen != '\0') return chosen;
  struct stat network = {};
  const bool is_known = ::stat("/proc/self/ns/net", &network) == 0;
  return fmt::format("{} {}", ThisMachine(), is_known ? network.st_ino : 0);
}

llvm::Expected<JobMachines> ShareMachines(Communicator& ranks, const std::vector<int>& machines,
                                          const std::string& address) {
  JobMachines job;
  job.machine = machines[static_cast<std::size_t>(ranks.rank())];
  job.ranks_here = static_cast<int>(std::ranges::count(machines, job.machine));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ranks.AllGather(address));
  for (const std::string& each : addresses) {  // Machines are numbered in the order of their lowest ranks.
    if (!each.empty()) job.addresses.push_back(each);
  }
  std::string secret;
  llvm::Error error = llvm::Error::success();
  if (ranks.rank() == 0) {
    llvm::Expected<std::string> drawn = NewSecret();
    if (drawn) secret = std::move(*drawn);
    error = drawn.takeError();
  }
  UCP_RETURN_IF_ERROR(OutcomeOfFirstRank(ranks, std::move(error)));
  UCP_ASSIGN_OR_RETURN(job.secret, FromFirstRank(ranks, secret));
  return job;
}

}  // namespace ucp
