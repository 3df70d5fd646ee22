// Both sides prove the purpose and a random number of each.
#include "runtime/comm/machine_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"
#include "runtime/comm/proof.h"
#include "runtime/comm/tcp.h"

namespace ucp {
namespace {

constexpr std::size_t kRandomBytes = 32;
constexpr double kSecondsToProve = 10;
constexpr auto kBetweenTries = std::chrono::milliseconds(100);
constexpr std::uint64_t kMostProofBytes = 256;
enum class Proof : std::uint64_t { kAsk = 0x7563700001, kAnswer, kFinish };

llvm::Error SystemFailure(const char* call) { return Fail(ErrorCode::kIo, "{}: {}", call, SystemReason(errno)); }

template <typename Number>
std::string BytesOf(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

llvm::Expected<std::string> Receive(MessageSocket& socket, Proof kind, std::size_t bytes) {
  UCP_ASSIGN_OR_RETURN(SocketMessage message, socket.Receive(kMostProofBytes));
  if (message.kind == static_cast<std::uint64_t>(kind) && message.bytes.size() == bytes) {
    return std::move(message.bytes);
  }
  return MakeError(ErrorCode::kIo, "the other side is not a part of this job");
}

llvm::Error Send(MessageSocket& socket, Proof kind, std::string_view bytes) {
  return socket.Send(static_cast<std::uint64_t>(kind), bytes);
}

llvm::Error ProveAsClient(MessageSocket& socket, std::string_view secret, Purpose purpose) {
  UCP_RETURN_IF_ERROR(socket.LimitWaiting(kSecondsToProve));
  UCP_ASSIGN_OR_RETURN(const std::string random, RandomBytes(kRandomBytes));
  const std::string asked = random + BytesOf(purpose);
  UCP_RETURN_IF_ERROR(Send(socket, Proof::kAsk, asked));
  UCP_ASSIGN_OR_RETURN(const std::string answer, Receive(socket, Proof::kAnswer, 2 * kRandomBytes));
  const std::string answered = answer.substr(0, kRandomBytes);
  if (!AreEqual(ProofOf(secret, "server", asked, answered), std::string_view(answer).substr(kRandomBytes))) {
    return MakeError(ErrorCode::kIo, "the other side is not a part of this job");
  }
  UCP_RETURN_IF_ERROR(Send(socket, Proof::kFinish, ProofOf(secret, "client", asked, answered)));
  return socket.LimitWaiting(0);
}

llvm::Expected<Purpose> ProveAsServer(MessageSocket& socket, std::string_view secret) {
  UCP_RETURN_IF_ERROR(socket.LimitWaiting(kSecondsToProve));
  UCP_ASSIGN_OR_RETURN(const std::string asked, Receive(socket, Proof::kAsk, kRandomBytes + sizeof(Purpose)));
  UCP_ASSIGN_OR_RETURN(const std::string random, RandomBytes(kRandomBytes));
  UCP_RETURN_IF_ERROR(Send(socket, Proof::kAnswer, random + ProofOf(secret, "server", asked, random)));
  UCP_ASSIGN_OR_RETURN(const std::string proof, Receive(socket, Proof::kFinish, kRandomBytes));
  if (!AreEqual(ProofOf(secret, "client", asked, random), proof)) {
    return MakeError(ErrorCode::kIo, "the other side is not a part of this job");
  }
  UCP_RETURN_IF_ERROR(socket.LimitWaiting(0));
  Purpose purpose;
  std::memcpy(&purpose, asked.data() + kRandomBytes, sizeof purpose);
  return purpose;
}

// The addresses of this machine in its networks; that of itself alone where it is in none.
std::vector<std::string> OwnHosts() {
  if (const char* chosen = std::getenv("UCP_HOST"); chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::string> hosts;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char host[NI_MAXHOST] = {};
    if (::getnameinfo(each->ifa_addr, bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::strncmp(host, "fe80:", 5) != 0) hosts.emplace_back(host);  // One of a single cable needs more to be found.
  }
  if (hosts.empty()) hosts.emplace_back("127.0.0.1");
  return hosts;
}

llvm::Expected<std::uint16_t> PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return SystemFailure("getsockname");
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port)
                                       : ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

llvm::Expected<MachineListener> ListenToMachines() {
  MachineListener listener;
  UCP_ASSIGN_OR_RETURN(listener.socket, BindTcp(0, false));
  if (::listen(listener.socket.number(), SOMAXCONN) != 0) return SystemFailure("listen");
  UCP_ASSIGN_OR_RETURN(const std::uint16_t port, PortOf(listener.socket.number()));
  listener.address = fmt::format("{} {}", port, fmt::join(OwnHosts(), " "));
  return listener;
}

llvm::Expected<std::string> NewSecret() { return RandomBytes(kRandomBytes); }

llvm::Expected<MessageSocket> ConnectToMachine(std::string_view address, std::string_view secret, Purpose purpose,
                                               double seconds) {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(llvm::StringRef(address.data(), address.size()), words, " ");
  if (words.size() < 2) return Fail(ErrorCode::kIo, "`{}` is not the address of a machine", address);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    std::string why;
    for (std::size_t i = 1; i < words.size(); ++i) {
      llvm::Expected<Descriptor> connected = ConnectTcp(words[i].str(), words[0].str());
      MessageSocket socket(connected ? std::move(*connected) : Descriptor(-1));
      llvm::Error error = connected ? ProveAsClient(socket, secret, purpose) : connected.takeError();
      if (!error) return socket;
      why += fmt::format("{}{} port {}: {}", why.empty() ? "" : "; ", words[i].str(), words[0].str(),
                         TakeFailure(std::move(error)).message);
    }
    if (std::chrono::steady_clock::now() > until) {
      return Fail(ErrorCode::kIo, "another machine of the job cannot be reached ({})", why);
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

llvm::Expected<AcceptedMachine> AcceptMachine(Descriptor caller, std::string_view secret) {
  UCP_RETURN_IF_ERROR(SetUpTcp(caller.number()));
  AcceptedMachine accepted;
  accepted.socket = MessageSocket(std::move(caller));
  UCP_ASSIGN_OR_RETURN(accepted.purpose, ProveAsServer(accepted.socket, secret));
  return accepted;
}

}  // namespace ucp
