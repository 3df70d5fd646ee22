#include "runtime/comm/communicator.h"

#include <optional>

#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

class OneRank : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    return std::vector<std::string>{mine};
  }
  void AskToStop() override {}
  bool IsAskedToStop() override { return false; }
};

// An outcome as bytes: nothing for success, else a letter for the code, and the message.
std::string Encode(llvm::Error error) {
  if (!error) return "";
  FailureText failure = Describe(std::move(error));
  return static_cast<char>('A' + static_cast<int>(failure.code)) + failure.message;
}

ErrorCode CodeOf(const std::string& outcome) { return static_cast<ErrorCode>(outcome.front() - 'A'); }

llvm::Error Decode(const std::string& outcome) {
  return outcome.empty() ? llvm::Error::success() : MakeError(CodeOf(outcome), outcome.substr(1));
}

}  // namespace

llvm::Error Communicator::Send(int to, int, std::span<const std::byte>) {
  UCP_CHECK(false, "a message to rank {} of {}, which have none", to, size());
}

llvm::Error Communicator::Receive(int from, int, std::span<std::byte>) {
  UCP_CHECK(false, "a message from rank {} of {}, which have none", from, size());
}

llvm::Expected<std::optional<Message>> Communicator::TakeAny(int) { return std::nullopt; }

Communicator& SingleProcess() {
  static OneRank single;
  return single;
}

llvm::Expected<std::string> FromFirstRank(Communicator& ranks, const std::string& mine) {
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> all, ranks.AllGather(ranks.rank() == 0 ? mine : ""));
  return std::move(all.front());
}

llvm::Error OutcomeOfFirstRank(Communicator& ranks, llvm::Error mine) {
  if (ranks.size() == 1) return mine;
  UCP_ASSIGN_OR_RETURN(std::string outcome, FromFirstRank(ranks, Encode(std::move(mine))));
  return Decode(outcome);
}

llvm::Error Agree(Communicator& ranks, llvm::Error mine) {
  if (ranks.size() == 1) return mine;
  UCP_ASSIGN_OR_RETURN(std::vector<std::string> outcomes, ranks.AllGather(Encode(std::move(mine))));
  std::optional<std::size_t> worst;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].empty()) continue;
    bool outranks =
        worst && CodeOf(outcomes[*worst]) == ErrorCode::kCancelled && CodeOf(outcomes[rank]) != ErrorCode::kCancelled;
    if (!worst || outranks) worst = rank;
  }
  if (!worst) return llvm::Error::success();
  const std::string& outcome = outcomes[*worst];
  if (CodeOf(outcome) == ErrorCode::kCancelled) return Decode(outcome);
  return Fail(CodeOf(outcome), "rank {} of {}: {}", *worst, ranks.size(), outcome.substr(1));
}

}  // namespace ucp
