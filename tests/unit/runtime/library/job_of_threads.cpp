#include "tests/unit/runtime/library/job_of_threads.h"

#include <atomic>
#include <barrier>
#include <thread>

namespace ucp {
namespace {

struct Board {
  explicit Board(int size) : notes(static_cast<std::size_t>(size)), all_are_here(size) {}
  std::vector<std::string> notes;
  std::barrier<> all_are_here;
  std::atomic<bool> is_asked_to_stop = false;
};

class RankOfThread : public Ranks {
 public:
  RankOfThread(Board& board, int rank) : board_(board), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(board_.notes.size()); }

  std::vector<std::string> AllGather(const std::string& mine) override {
    board_.notes[static_cast<std::size_t>(rank_)] = mine;
    board_.all_are_here.arrive_and_wait();
    std::vector<std::string> all = board_.notes;
    board_.all_are_here.arrive_and_wait();
    return all;
  }

  void AskToStop() override { board_.is_asked_to_stop = true; }
  bool IsAskedToStop() override { return board_.is_asked_to_stop; }

 private:
  Board& board_;
  int rank_;
};

}  // namespace

void RunJob(int size, const std::function<void(Ranks&)>& work) {
  Board board(size);
  std::vector<std::jthread> threads;
  for (int number = 0; number < size; ++number) {
    threads.emplace_back([&board, &work, number] {
      RankOfThread rank(board, number);
      work(rank);
    });
  }
}

}  // namespace ucp
