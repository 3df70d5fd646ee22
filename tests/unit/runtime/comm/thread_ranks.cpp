#include "tests/unit/runtime/comm/thread_ranks.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "compiler/support/check.h"

namespace ucp {
namespace {

struct Board {
  explicit Board(int size) : notes(static_cast<std::size_t>(size)), all_are_here(size) {}
  std::vector<std::string> notes;
  std::barrier<> all_are_here;
  std::atomic<bool> is_asked_to_stop = false;

  using Address = std::tuple<int, int, int>;  // Receiver, tag, sender.
  std::mutex mutex;                           // Protects the messages.
  std::condition_variable has_come;
  std::map<Address, std::deque<std::string>> messages;
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(Board& board, int rank) : board_(board), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(board_.notes.size()); }

  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    board_.notes[static_cast<std::size_t>(rank_)] = mine;
    board_.all_are_here.arrive_and_wait();
    std::vector<std::string> all = board_.notes;
    board_.all_are_here.arrive_and_wait();
    return all;
  }

  void AskToStop() override { board_.is_asked_to_stop = true; }
  bool IsAskedToStop() override { return board_.is_asked_to_stop; }

  bool has_messages() const override { return true; }

  llvm::Error Send(int to, int tag, std::span<const std::byte> bytes) override {
    std::lock_guard lock(board_.mutex);
    board_.messages[{to, tag, rank_}].emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    board_.has_come.notify_all();
    return llvm::Error::success();
  }

  llvm::Error Receive(int from, int tag, std::span<std::byte> buffer) override {
    std::unique_lock lock(board_.mutex);
    std::deque<std::string>& messages = board_.messages[{rank_, tag, from}];
    board_.has_come.wait(lock, [&] { return !messages.empty(); });
    std::string bytes = std::move(messages.front());
    messages.pop_front();
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
