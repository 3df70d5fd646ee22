#include "runtime/comm/connect_machines.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/comm/tcp.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

bool HasCaller(const Descriptor& listener, Clock::time_point until) {
  pollfd wait{listener.number(), POLLIN, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  const auto milliseconds = static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 1 << 30));
  return Uninterrupted([&] { return ::poll(&wait, 1, milliseconds); }) > 0;
}

}  // namespace

llvm::Expected<std::unique_ptr<SocketRanks>> ConnectMachines(Purpose purpose, const std::vector<std::string>& addresses,
                                                             std::string_view secret, const Descriptor& listener,
                                                             double seconds) {
  std::vector<MessageSocket> sockets(addresses.size());
  const auto mine = static_cast<std::size_t>(purpose.number);
  for (std::size_t machine = 0; machine < mine; ++machine) {
    UCP_ASSIGN_OR_RETURN(sockets[machine], ConnectToMachine(addresses[machine], secret, purpose, seconds));
  }
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (std::size_t missing = sockets.size() - mine - 1; missing > 0;) {
    if (Clock::now() >= until || !HasCaller(listener, until)) {
      return Fail(ErrorCode::kIo, "{} of the job's {} machines did not connect within {} s", missing, sockets.size(),
                  seconds);
    }
    UCP_ASSIGN_OR_RETURN(Descriptor caller, AcceptTcp(listener.number()));
    llvm::Expected<AcceptedMachine> accepted = AcceptMachine(std::move(caller), secret);
    if (!accepted) {  // A caller that is not of this job is left alone.
      llvm::consumeError(accepted.takeError());
      continue;
    }
    const std::uint64_t machine = accepted->purpose.number;
    if (accepted->purpose.kind != purpose.kind || machine <= mine || machine >= sockets.size()) continue;
    if (!sockets[machine].is_open()) --missing;
    sockets[machine] = std::move(accepted->socket);
  }
  return std::make_unique<SocketRanks>(static_cast<int>(mine), std::move(sockets), "machine");
}

}  // namespace ucp
