#include "tests/unit/runtime/comm/thread_ranks.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// The state that all ranks see. A rank that has ended its work is gone: it will not send any more.
struct Board {
  explicit Board(int size) : is_gone(static_cast<std::size_t>(size), false) {}
  std::atomic<bool> is_asked_to_stop = false;

  using Address = std::tuple<int, int, int>;  // Receiver, tag, sender.
  std::mutex mutex;                           // Protects the rest.
  std::condition_variable has_come;
  std::map<Address, std::deque<std::string>> messages;
  std::vector<bool> is_gone;  // By rank.
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(Board& board, int rank) : board_(board), rank_(rank) {}
  ~ThreadRank() override {
    std::lock_guard lock(board_.mutex);
    board_.is_gone[static_cast<std::size_t>(rank_)] = true;
    board_.has_come.notify_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(board_.is_gone.size()); }

  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    for (int to = 0; to < size(); ++to) Post(to, kGatherTag, mine);
    std::vector<std::string> all;
    for (int from = 0; from < size(); ++from) {
      UCP_ASSIGN_OR_RETURN(all.emplace_back(), Take(from, kGatherTag));
    }
    return all;
  }

  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override {
    for (const Outgoing& one : sending) Post(one.to, kDeliveryTag, TextOf(one.bytes));
    for (const Incoming& one : receiving) {
      UCP_ASSIGN_OR_RETURN(const std::string bytes, Take(one.from, kDeliveryTag));
      UCP_RETURN_IF_ERROR(CheckDelivered(one, bytes.size()));
      std::ranges::copy(std::as_bytes(std::span(bytes)), one.bytes.begin());
    }
    return llvm::Error::success();
  }

  void AskToStop() override { board_.is_asked_to_stop = true; }
  bool IsAskedToStop() override { return board_.is_asked_to_stop; }

  bool has_messages() const override { return true; }

  llvm::Error Send(int to, int tag, std::span<const std::byte> bytes) override {
    Post(to, tag, TextOf(bytes));
    return llvm::Error::success();
  }

  llvm::Error Receive(int from, int tag, std::span<std::byte> buffer) override {
    UCP_ASSIGN_OR_RETURN(const std::string bytes, Take(from, tag));
    UCP_CHECK(bytes.size() == buffer.size(), "a message of {} bytes for a buffer of {}", bytes.size(), buffer.size());
    std::ranges::copy(std::as_bytes(std::span(bytes)), buffer.begin());
    return llvm::Error::success();
  }

  llvm::Expected<std::optional<Message>> TakeAny(int tag) override {
    std::lock_guard lock(board_.mutex);
    for (int from = 0; from < size(); ++from) {
      std::deque<std::string>& messages = board_.messages[{rank_, tag, from}];
      if (messages.empty()) continue;
      Message message{from, std::move(messages.front())};
      messages.pop_front();
      return message;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kGatherTag = kTags;
  static constexpr int kDeliveryTag = kTags + 1;

  static std::string TextOf(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  void Post(int to, int tag, std::string bytes) {
    std::lock_guard lock(board_.mutex);
    board_.messages[{to, tag, rank_}].push_back(std::move(bytes));
    board_.has_come.notify_all();
  }

  llvm::Expected<std::string> Take(int from, int tag) {
    std::unique_lock lock(board_.mutex);
    std::deque<std::string>& messages = board_.messages[{rank_, tag, from}];
    board_.has_come.wait(lock, [&] { return !messages.empty() || board_.is_gone[static_cast<std::size_t>(from)]; });
    if (messages.empty()) return Fail(ErrorCode::kIo, "rank {} of {} is gone", from, size());
    std::string bytes = std::move(messages.front());
    messages.pop_front();
    return bytes;
  }

  Board& board_;
  int rank_;
};

}  // namespace

void OnRanks(int size, const std::function<void(Communicator&)>& work) {
  Board board(size);
  std::vector<std::jthread> threads;
  for (int number = 0; number < size; ++number) {
    threads.emplace_back([&board, &work, number] {
      ThreadRank rank(board, number);
      work(rank);
    });
  }
}

}  // namespace ucp
