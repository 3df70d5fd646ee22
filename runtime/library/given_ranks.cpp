#include "runtime/library/given_ranks.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/library/call.h"

namespace ucp {
namespace {

// Turns an exception of the caller's code into an error.
llvm::Error Caught(llvm::function_ref<void()> work) {
  try {
    work();
    return llvm::Error::success();
  } catch (const Error& error) {
    return MakeError(CodeOf(error.kind()), error.what());
  } catch (const std::exception& error) {
    return MakeError(ErrorCode::kIo, error.what());
  }
}

}  // namespace

Ranks::~Ranks() = default;
bool Ranks::Deliver(std::span<const BytesToRank>, std::span<const BytesFromRank>) { return false; }
void Ranks::AskToStop() {}
bool Ranks::IsAskedToStop() { return false; }

GivenRanks::GivenRanks(Ranks* given) : given_(given) {
  if (given == nullptr) return;
  rank_ = given->rank();
  size_ = given->size();
  if (rank_ < 0 || rank_ >= size_) {
    ThrowIf(Fail(ErrorCode::kUsage, "the given ranks say that this is rank {} of {}, counted from 0", rank_, size_));
  }
  if (size_ > 1) ThrowIf(FindWhetherTheyDeliver());
}

llvm::Error GivenRanks::FindWhetherTheyDeliver() {
  UCP_RETURN_IF_ERROR(Agree(*this, Caught([&] { delivers_ = given_->Deliver({}, {}); })));
  UCP_ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGather(delivers_ ? "delivers" : ""));
  const auto other = std::ranges::find_if(all, [&](const std::string& one) { return one != all.front(); });
  if (other == all.end()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "the given ranks' Deliver() returns {} on rank 0 and {} on rank {}; all must be alike",
              !all.front().empty(), !other->empty(), other - all.begin());
}

llvm::Expected<std::vector<std::string>> GivenRanks::AllGather(const std::string& mine) {
  if (size_ == 1) return std::vector<std::string>{mine};
  std::vector<std::string> all;
  UCP_RETURN_IF_ERROR(Caught([&] { all = given_->AllGather(mine); }));
  if (all.size() == static_cast<std::size_t>(size_)) return all;
  return Fail(ErrorCode::kUsage, "the given ranks' AllGather() returned {} values for {} ranks", all.size(), size_);
}

llvm::Error GivenRanks::Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) {
  if (!delivers_) return Communicator::Deliver(sending, receiving);
  std::vector<BytesToRank> gives;
  std::vector<BytesFromRank> takes;
  for (const Outgoing& one : sending) gives.push_back({one.to, one.bytes});
  for (const Incoming& one : receiving) takes.push_back({one.from, one.bytes});
  bool is_done = false;
  UCP_RETURN_IF_ERROR(Caught([&] { is_done = given_->Deliver(gives, takes); }));
  if (is_done) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "the given ranks' Deliver() returned true where there was nothing to deliver, and false for {} things to "
              "send and {} to receive, which are lost; it must return the same each time",
              sending.size(), receiving.size());
}

// Should it fail, others only go on for longer.
void GivenRanks::AskToStop() {
  try {
    if (size_ > 1) given_->AskToStop();
  } catch (const std::exception&) {
    return;
  }
}

bool GivenRanks::IsAskedToStop() {
  try {
    return size_ > 1 && given_->IsAskedToStop();
  } catch (const std::exception&) {
    return true;  // The next AllGather() says why.
  }
}

}  // namespace ucp
