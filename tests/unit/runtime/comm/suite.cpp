#include "tests/unit/runtime/comm/suite.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <thread>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// Other bytes for each pair of ranks and each number, and other lengths.
std::string Content(int from, int to, int number, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(i * 131 + static_cast<std::size_t>(from * 7 + to * 31 + number * 3));
  }
  return text;
}

class Suite {
 public:
  Suite(Communicator& ranks, AskingToStop asking) : ranks_(ranks), asking_(asking) {}

  std::vector<std::string> Run() {
    Gather();
    for (std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{3} << 20}) DeliverToAll(bytes);
    DeliverToNext();
    DeliverAtDifferentTimes();
    GiveOneBufferToAll();
    HandOutAndCollect();
    RefuseAnotherSize();
    AgreeOnFailure();
    Stop();
    return problems_;
  }

 private:
  void Check(bool is_so, const std::string& what) {
    if (!is_so) problems_.push_back(fmt::format("rank {} of {}: {}", ranks_.rank(), ranks_.size(), what));
  }
  void CheckDone(llvm::Error error, const std::string& what) {
    if (error) Check(false, what + ": " + TakeFailure(std::move(error)).message);
  }

  // Of different lengths, from nothing to more than is sent at once; again and again.
  void Gather() {
    constexpr std::array<std::size_t, 10> kLengths{0, 1, 0, 7, 4096, 100'000, 3, 9'000'001, 0, 12};
    for (int round = 0; round < 20; ++round) {
      auto length = [&](int rank) { return kLengths[static_cast<std::size_t>(rank + round) % kLengths.size()]; };
      auto all = ranks_.AllGather(Content(ranks_.rank(), 0, round, length(ranks_.rank())));
      if (!all) return CheckDone(all.takeError(), "gather");
      Check(std::ssize(*all) == ranks_.size(), "gather gives another number of values than there are ranks");
      for (int rank = 0; rank < std::ssize(*all); ++rank) {
        Check((*all)[static_cast<std::size_t>(rank)] == Content(rank, 0, round, length(rank)),
              fmt::format("gather gives other bytes of rank {}", rank));
      }
    }
  }

  struct Expected {
    int from;
    std::string right;
    std::string found;
  };

  void Deliver(const std::vector<std::pair<int, std::string>>& gives, std::vector<Expected> takes,
               const std::string& what) {
    std::vector<Outgoing> sending;
    for (const auto& [to, bytes] : gives) sending.push_back({to, std::as_bytes(std::span(bytes))});
    std::vector<Incoming> receiving;
    for (Expected& one : takes) {
      one.found.assign(one.right.size(), 'x');
      receiving.push_back({one.from, std::as_writable_bytes(std::span(one.found))});
    }
    CheckDone(ranks_.Deliver(sending, receiving), what);
    for (const Expected& one : takes)
      Check(one.found == one.right, fmt::format("{}: other bytes of rank {}", what, one.from));
  }

  // Two messages to everybody, the second of another length, and more from lower ranks than from higher ones.
  void DeliverToAll(std::size_t bytes) {
    std::vector<std::pair<int, std::string>> gives;
    std::vector<Expected> takes;
    for (int other = 0; other < ranks_.size(); ++other) {
      if (other == ranks_.rank()) continue;
      for (int number : {0, 1}) {
        auto length = [&](int from) { return bytes + static_cast<std::size_t>(number + ranks_.size() - from); };
        gives.emplace_back(other, Content(ranks_.rank(), other, number, length(ranks_.rank())));
        takes.push_back({other, Content(other, ranks_.rank(), number, length(other)), ""});
      }
    }
    Deliver(gives, takes, fmt::format("delivering {} bytes to all", bytes));
  }

  // Each gives to one and takes from another; the last rank gives nothing.
  void DeliverToNext() {
    std::vector<std::pair<int, std::string>> gives;
    std::vector<Expected> takes;
    if (ranks_.rank() + 1 < ranks_.size()) gives.emplace_back(ranks_.rank() + 1, Content(ranks_.rank(), 0, 2, 5000));
    if (ranks_.rank() > 0) takes.push_back({ranks_.rank() - 1, Content(ranks_.rank() - 1, 0, 2, 5000), ""});
    for (int round = 0; round < 10; ++round) Deliver(gives, takes, "delivering to the next rank");
  }

  // A message that is sent before others take it waits for them, and gathering comes between as all ranks have it.
  void DeliverAtDifferentTimes() {
    for (int late = 0; late < std::min(ranks_.size(), 3); ++late) {
      if (ranks_.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      DeliverToNext();
      Gather();
    }
  }

  void GiveOneBufferToAll() {
    const std::string mine = Content(ranks_.rank(), 0, 3, 100'000);
    std::vector<Outgoing> sending;
    std::vector<std::string> found(static_cast<std::size_t>(ranks_.size()), std::string(mine.size(), 'x'));
    std::vector<Incoming> receiving;
    for (int other = 0; other < ranks_.size(); ++other) {
      if (other == ranks_.rank()) continue;
      sending.push_back({other, std::as_bytes(std::span(mine))});
      receiving.push_back({other, std::as_writable_bytes(std::span(found[static_cast<std::size_t>(other)]))});
    }
    CheckDone(ranks_.Deliver(sending, receiving), "one buffer for all");
    for (const Incoming& one : receiving) {
      Check(found[static_cast<std::size_t>(one.from)] == Content(one.from, 0, 3, mine.size()),
            fmt::format("one buffer for all: other bytes of rank {}", one.from));
    }
  }

  void HandOutAndCollect() {
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks_.size(); ++rank)
      texts.push_back(Content(rank, 0, 4, static_cast<std::size_t>(rank * 50)));
    std::vector<const std::string*> of_ranks;
    if (ranks_.rank() == 0) {
      for (const std::string& text : texts) of_ranks.push_back(&text);
    }
    auto mine = FromFirstRankToEach(ranks_, of_ranks);
    if (!mine) return CheckDone(mine.takeError(), "handing out");
    Check(*mine == texts[static_cast<std::size_t>(ranks_.rank())], "rank 0 handed out something else");
    auto all = ToFirstRank(ranks_, *mine);
    if (!all) return CheckDone(all.takeError(), "collecting");
    Check(*all == (ranks_.rank() == 0 ? texts : std::vector<std::string>()), "rank 0 collected something else");
  }

  // Of a rank that gives less than is expected of it. The others may then fail in several ways, so there is but
  // one taker, and it is looked at only where a communicator goes on after an error.
  void RefuseAnotherSize() {
    if (ranks_.size() == 1 || !goes_on_after_errors()) return;
    std::string bytes(10, 'x');
    std::vector<Outgoing> sending;
    std::vector<Incoming> receiving;
    if (ranks_.rank() == 1) sending.push_back({0, std::as_bytes(std::span(bytes)).first(9)});
    if (ranks_.rank() == 0) receiving.push_back({1, std::as_writable_bytes(std::span(bytes))});
    llvm::Error error = ranks_.Deliver(sending, receiving);
    const std::string said = error ? TakeFailure(std::move(error)).message : "";
    Check(ranks_.rank() != 0 || said.starts_with("rank 1 gives 9 bytes where 10 are expected of it"),
          "another size is taken: " + said);
  }

  bool goes_on_after_errors() const { return ranks_.has_messages(); }

  void AgreeOnFailure() {
    llvm::Error error = Agree(ranks_, ranks_.rank() == ranks_.size() - 1 ? Fail(ErrorCode::kBadData, "it is damaged")
                                                                         : llvm::Error::success());
    const std::string said = error ? TakeFailure(std::move(error)).message : "";
    const std::string right = ranks_.size() == 1
                                  ? "it is damaged"
                                  : fmt::format("rank {} of {}: it is damaged", ranks_.size() - 1, ranks_.size());
    Check(said == right, "ranks agree on `" + said + "`");
  }

  void Stop() {
    if (ranks_.size() == 1 || asking_ == AskingToStop::kReachesNobody) return;
    Check(!ranks_.IsAskedToStop(), "it is asked to stop before anybody asked");
    CheckDone(Agree(ranks_, llvm::Error::success()), "agreeing");
    if (ranks_.rank() == 0) ranks_.AskToStop();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (ranks_.rank() != 0 && !ranks_.IsAskedToStop() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    Check(ranks_.rank() == 0 || ranks_.IsAskedToStop(), "it is not asked to stop within 20 s");
    CheckDone(Agree(ranks_, llvm::Error::success()), "agreeing after one asked to stop");
  }

  Communicator& ranks_;
  const AskingToStop asking_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> RunCommunicatorSuite(Communicator& ranks, AskingToStop asking) {
  return Suite(ranks, asking).Run();
}

}  // namespace ucp
