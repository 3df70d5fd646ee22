#include "runtime/comm/nodes.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <map>

#include "compiler/support/error.h"

namespace ucp {

// Where the system does not say it, the host's name.
std::string ThisMachine() {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (std::getline(boot, id) && !id.empty()) return id;
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::vector<int> NumberNodes(const std::vector<std::string>& machines) {
  std::vector<int> nodes;
  std::map<std::string, int> numbers;
  for (const std::string& machine : machines) {
    nodes.push_back(numbers.try_emplace(machine, static_cast<int>(numbers.size())).first->second);
  }
  return nodes;
}

llvm::Expected<std::vector<int>> NodesOfRanks(Communicator& ranks) {
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> machines, ranks.AllGather(ThisMachine()));
  return NumberNodes(machines);
}

}  // namespace ucp
