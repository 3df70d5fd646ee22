#include "runtime/save/find_machines.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/comm/connect_machines.h"
#include "runtime/comm/machine_socket.h"
#include "runtime/comm/nodes.h"
#include "runtime/save/writer_ranks.h"

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

llvm::Expected<std::unique_ptr<SocketRanks>> MeetMachines(Communicator& ranks) {
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ranks.AllGather(NameOfThisMachine()));
  const std::vector<int> machines = NumberNodes(names);
  const int machine = machines[static_cast<std::size_t>(ranks.rank())];
  const bool is_lowest = std::ranges::find(machines, machine) - machines.begin() == ranks.rank();
  if (std::ranges::max(machines) == 0) {  // One machine, which nobody else is to reach.
    return is_lowest ? std::make_unique<SocketRanks>(0, std::vector<MessageSocket>(1), "machine") : nullptr;
  }
  MachineListener listener;
  llvm::Error error = llvm::Error::success();
  if (is_lowest) {
    llvm::Expected<MachineListener> opened = ListenToMachines();
    if (opened) listener = std::move(*opened);
    error = opened.takeError();
  }
  UCP_RETURN_IF_ERROR(Agree(ranks, std::move(error)));
  UCP_ASSIGN_OR_RETURN(const JobMachines job, ShareMachines(ranks, machines, listener.address));
  if (!is_lowest) return nullptr;
  const Purpose purpose{static_cast<std::uint64_t>(MachinePurpose::kRun), static_cast<std::uint64_t>(machine)};
  return ConnectMachines(purpose, job.addresses, job.secret, listener.socket, kSecondsToConnect);
}

}  // namespace ucp
