// The duties of messages between ranks, for the ranks of tests, which are threads, for ranks over sockets, and for
// those of MPI, when mpirun starts this program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/comm/communicator.h"
#include "runtime/comm/launcher.h"
#include "tests/unit/runtime/comm/ranks_of_sockets.h"
#include "tests/unit/runtime/comm/thread_ranks.h"

namespace ucp {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string Received(Communicator& ranks, int from, int tag, std::size_t bytes) {
  std::string text(bytes, '\0');
  llvm::cantFail(ranks.Receive(from, tag, std::as_writable_bytes(std::span(text))));
  return text;
}

// Every rank asks every other one, from several threads at once, while a thread answers what others ask of it: each
// answer has the length that was asked for, up to some megabytes.
void AskAndAnswer(Communicator& ranks) {
  constexpr int kThreads = 3;
  constexpr int kRequests = 20;
  const int expected = (ranks.size() - 1) * kThreads * kRequests;
  auto content = [](int rank, std::size_t bytes) { return std::string(bytes, static_cast<char>('a' + rank)); };
  std::thread answers([&] {
    for (int answered = 0; answered < expected;) {
      std::optional<Message> message = llvm::cantFail(ranks.TakeAny(0));
      if (!message) {
        std::this_thread::yield();
        continue;
      }
      const std::size_t space = message->bytes.find(' ');
      const int tag = std::stoi(message->bytes.substr(0, space));
      llvm::cantFail(
          ranks.Send(message->from, tag, Bytes(content(ranks.rank(), std::stoul(message->bytes.substr(space))))));
      ++answered;
    }
  });
  std::vector<std::thread> askers;
  for (int thread = 0; thread < kThreads; ++thread) {
    askers.emplace_back([&, thread] {
      for (int request = 0; request < kRequests; ++request) {
        for (int to = 0; to < ranks.size(); ++to) {
          if (to == ranks.rank()) continue;
          const int tag = 1 + thread;
          const std::size_t bytes = std::size_t{1} << (request + 2);
          llvm::cantFail(ranks.Send(to, 0, Bytes(std::to_string(tag) + " " + std::to_string(bytes))));
          EXPECT_TRUE(Received(ranks, to, tag, bytes) == content(to, bytes)) << bytes << " bytes of rank " << to;
        }
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  answers.join();
  // A common call beside messages, and nothing is left over.
  EXPECT_EQ(llvm::cantFail(ranks.AllGather("x")).size(), static_cast<std::size_t>(ranks.size()));
  EXPECT_EQ(llvm::cantFail(ranks.TakeAny(0)), std::nullopt);
}

// Messages do not wait for common calls, nor the other way round.
void AnswerWhileOthersGather(Communicator& ranks) {
  std::atomic<bool> is_over = false;
  std::thread answers([&] {
    while (!is_over) {
      std::optional<Message> message = llvm::cantFail(ranks.TakeAny(0));
      if (message) llvm::cantFail(ranks.Send(message->from, 1, Bytes("answer")));
      std::this_thread::yield();
    }
  });
  if (ranks.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int to = 1; to < ranks.size(); ++to) {
      llvm::cantFail(ranks.Send(to, 0, Bytes("question")));
      EXPECT_EQ(Received(ranks, to, 1, 6), "answer");
    }
  }
  llvm::cantFail(Agree(ranks, llvm::Error::success()));  // The others wait here and answer.
  is_over = true;
  answers.join();
}

void KeepOrder(Communicator& ranks) {
  const int next = (ranks.rank() + 1) % ranks.size();
  const int last = (ranks.rank() + ranks.size() - 1) % ranks.size();
  std::thread sender([&] {
    for (int i = 0; i < 100; ++i) llvm::cantFail(ranks.Send(next, 2, Bytes(std::string(1, static_cast<char>(i)))));
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Received(ranks, last, 2, 1)[0], static_cast<char>(i));
  sender.join();
}

TEST(MessageTest, OfThreads) {
  OnRanks(4, AskAndAnswer);
  OnRanks(3, AnswerWhileOthersGather);
  OnRanks(3, KeepOrder);
}

TEST(MessageTest, OfSockets) {
  OnSocketRanks(3, AskAndAnswer);
  OnSocketRanks(3, AnswerWhileOthersGather);
  OnSocketRanks(3, KeepOrder);
}

TEST(MessageTest, OfMpi) {
  Communicator& ranks = *llvm::cantFail(RanksOfThisRun());
  if (ranks.size() == 1) GTEST_SKIP() << "mpirun did not start this";
  ASSERT_TRUE(ranks.has_messages());
  AskAndAnswer(ranks);
  AnswerWhileOthersGather(ranks);
  KeepOrder(ranks);
  LeaveRanks();
}

TEST(MessageTest, AProcessAloneHasNone) { EXPECT_FALSE(SingleProcess().has_messages()); }

}  // namespace
}  // namespace ucp
