// Ranks that speak over sockets, each with each. One that dies ends the run of all: what others wait for fails with
// kIo.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/message_socket.h"

namespace ucp {

class SocketRanks : public Communicator {
 public:
  // `sockets`: by rank; that of this rank is not open.
  SocketRanks(int rank, std::vector<MessageSocket> sockets, const char* noun = "rank");
  // Without Leave() before, it ends as a rank that dies does.
  ~SocketRanks() override;

  // This rank needs the others no more, nor they this one, after what it has sent so far.
  void Leave();
  // Ends the run: whatever any rank waits for, or begins, fails with kIo.
  void Abandon();

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  const char* noun() const override { return noun_; }
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override;
  [[nodiscard]] llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override;
  bool DeliversAllToAll() const override { return false; }
  bool FailsWhenARankDies() const override { return true; }
  void AskToStop() override;
  bool IsAskedToStop() override { return is_asked_to_stop_; }
  void ForgetStop() override { is_asked_to_stop_ = false; }

  bool has_messages() const override { return true; }
  [[nodiscard]] llvm::Error Send(int to, int tag, std::span<const std::byte> bytes) override;
  [[nodiscard]] llvm::Error Receive(int from, int tag, std::span<std::byte> buffer) override;
  llvm::Expected<std::optional<Message>> TakeAny(int tag) override;

 private:
  // The messages of one rank wait by their kind: a tag, or one of those of common calls.
  struct Peer {
    MessageSocket socket;
    std::mutex sending;
    std::thread reader;
    std::map<std::uint64_t, std::deque<std::string>> waiting;  // The next three: under `mutex_`.
    bool has_left = false;
    std::string gone;  // Why nothing comes any more.
  };

  void Read(int from);
  void Lose(int from, std::string why);
  [[nodiscard]] llvm::Error SendKind(int to, std::uint64_t kind, std::string_view bytes);
  llvm::Expected<std::string> Next(int from, std::uint64_t kind);
  [[nodiscard]] llvm::Error TakeDelivered(const Incoming& incoming);

  const int rank_;
  const char* const noun_;
  std::vector<std::unique_ptr<Peer>> peers_;  // By rank.
  std::atomic<bool> is_asked_to_stop_ = false;
  std::mutex mutex_;
  std::condition_variable arrived_;
};

}  // namespace ucp
