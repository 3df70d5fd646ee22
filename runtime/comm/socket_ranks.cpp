// A thread for each other rank takes all that it sends, at once, so that nobody who sends waits for a rank that sends
// itself.
#include "runtime/comm/socket_ranks.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// Behind the tags.
constexpr std::uint64_t kGathered = Communicator::kTags;
constexpr std::uint64_t kDelivered = kGathered + 1;
constexpr std::uint64_t kStop = kGathered + 2;
constexpr std::uint64_t kLeft = kGathered + 3;
constexpr std::size_t kMostTaken = std::size_t{16} << 10;  // By TakeAny().

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

SocketRanks::SocketRanks(int rank, std::vector<MessageSocket> sockets, const char* noun) : rank_(rank), noun_(noun) {
  for (MessageSocket& socket : sockets) {
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
    peer.socket = std::move(socket);
  }
  for (int from = 0; from < size(); ++from) {
    if (from != rank_) peers_[static_cast<std::size_t>(from)]->reader = std::thread([this, from] { Read(from); });
  }
}

SocketRanks::~SocketRanks() {
  Abandon();
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer->reader.joinable()) peer->reader.join();
  }
}

void SocketRanks::Leave() {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) llvm::consumeError(SendKind(rank, kLeft, ""));
  }
}

void SocketRanks::Abandon() {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) ::shutdown(peers_[static_cast<std::size_t>(rank)]->socket.descriptor(), SHUT_RDWR);
  }
}

void SocketRanks::Read(int from) {
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  while (true) {
    llvm::Expected<SocketMessage> message = peer.socket.Receive();
    if (!message) return Lose(from, TakeFailure(message.takeError()).message);
    std::lock_guard lock(mutex_);
    if (message->kind == kStop) is_asked_to_stop_ = true;
    if (message->kind == kLeft) peer.has_left = true;
    if (message->kind < kStop) peer.waiting[message->kind].push_back(std::move(message->bytes));
    arrived_.notify_all();
  }
}

// A rank that dies takes the others' connections with it, so nobody waits for one that waits for it.
void SocketRanks::Lose(int from, std::string why) {
  std::lock_guard lock(mutex_);
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  why = fmt::format("{} {} of {} is gone: {}", noun_, from, size(), why);
  if (peer.gone.empty()) peer.gone = why;
  arrived_.notify_all();
  if (peer.has_left) return;
  for (const std::unique_ptr<Peer>& other : peers_) {
    if (other->gone.empty() && !other->has_left) other->gone = why;
  }
  Abandon();
}

llvm::Error SocketRanks::SendKind(int to, std::uint64_t kind, std::string_view bytes) {
  Peer& peer = *peers_[static_cast<std::size_t>(to)];
  std::lock_guard lock(peer.sending);
  llvm::Error error = peer.socket.Send(kind, bytes);
  if (!error) return error;
  return Fail(ErrorCode::kIo, "{} {} of {} does not answer: {}", noun_, to, size(),
              TakeFailure(std::move(error)).message);
}

llvm::Expected<std::string> SocketRanks::Next(int from, std::uint64_t kind) {
  Peer& peer = *peers_[static_cast<std::size_t>(from)];
  std::unique_lock lock(mutex_);
  std::deque<std::string>& waiting = peer.waiting[kind];
  arrived_.wait(lock, [&] { return !waiting.empty() || !peer.gone.empty(); });
  if (waiting.empty()) return MakeError(ErrorCode::kIo, peer.gone);
  std::string bytes = std::move(waiting.front());
  waiting.pop_front();
  return bytes;
}

llvm::Expected<std::vector<std::string>> SocketRanks::AllGather(const std::string& mine) {
  std::vector<std::string> all(peers_.size());
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) UCP_RETURN_IF_ERROR(SendKind(rank, kGathered, mine));
  }
  for (int rank = 0; rank < size(); ++rank) {
    std::string& bytes = all[static_cast<std::size_t>(rank)];
    if (rank == rank_) {
      bytes = mine;
    } else {
      UCP_ASSIGN_OR_RETURN(bytes, Next(rank, kGathered));
    }
  }
  return all;
}

llvm::Error SocketRanks::Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) {
  for (const Outgoing& outgoing : sending) {
    UCP_RETURN_IF_ERROR(SendKind(outgoing.to, kDelivered, TextOf(outgoing.bytes)));
  }
  for (const Incoming& incoming : receiving) UCP_RETURN_IF_ERROR(TakeDelivered(incoming));
  return llvm::Error::success();
}

llvm::Error SocketRanks::TakeDelivered(const Incoming& incoming) {
  UCP_ASSIGN_OR_RETURN(const std::string bytes, Next(incoming.from, kDelivered));
  UCP_RETURN_IF_ERROR(CheckDelivered(incoming, bytes.size()));
  std::memcpy(incoming.bytes.data(), bytes.data(), bytes.size());
  return llvm::Error::success();
}

void SocketRanks::AskToStop() {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) llvm::consumeError(SendKind(rank, kStop, ""));
  }
}

llvm::Error SocketRanks::Send(int to, int tag, std::span<const std::byte> bytes) {
  return SendKind(to, static_cast<std::uint64_t>(tag), TextOf(bytes));
}

llvm::Error SocketRanks::Receive(int from, int tag, std::span<std::byte> buffer) {
  UCP_ASSIGN_OR_RETURN(const std::string bytes, Next(from, static_cast<std::uint64_t>(tag)));
  if (bytes.size() != buffer.size()) {
    return Fail(ErrorCode::kIo, "{} {} of {} has sent {} bytes where {} were expected", noun_, from, size(),
                bytes.size(), buffer.size());
  }
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return llvm::Error::success();
}

llvm::Expected<std::optional<Message>> SocketRanks::TakeAny(int tag) {
  std::lock_guard lock(mutex_);
  for (int rank = 0; rank < size(); ++rank) {
    Peer& peer = *peers_[static_cast<std::size_t>(rank)];
    const auto found = peer.waiting.find(static_cast<std::uint64_t>(tag));
    if (found == peer.waiting.end() || found->second.empty()) continue;
    Message message{rank, std::move(found->second.front())};
    found->second.pop_front();
    if (message.bytes.size() > kMostTaken) {
      return Fail(ErrorCode::kIo, "a message of {} bytes of rank {} is too long", message.bytes.size(), rank);
    }
    return message;
  }
  return std::nullopt;
}

}  // namespace ucp
