#include "runtime/library/given_ranks.h"

#include "compiler/support/error.h"
#include "runtime/library/call.h"

namespace ucp {

Ranks::~Ranks() = default;
void Ranks::AskToStop() {}
bool Ranks::IsAskedToStop() { return false; }

GivenRanks::GivenRanks(Ranks* given) : given_(given) {
  if (given == nullptr) return;
  rank_ = given->rank();
  size_ = given->size();
  if (rank_ < 0 || rank_ >= size_) {
    ThrowIf(Fail(ErrorCode::kUsage, "the given ranks say that this is rank {} of {}, counted from 0", rank_, size_));
  }
}

llvm::Expected<std::vector<std::string>> GivenRanks::AllGather(const std::string& mine) {
  if (size_ == 1) return std::vector<std::string>{mine};
  try {
    std::vector<std::string> all = given_->AllGather(mine);
    if (all.size() == static_cast<std::size_t>(size_)) return all;
    return Fail(ErrorCode::kUsage, "the given ranks' AllGather() returned {} values for {} ranks", all.size(), size_);
  } catch (const Error& error) {
    return MakeError(CodeOf(error.kind()), error.what());
  } catch (const std::exception& error) {
    return MakeError(ErrorCode::kIo, error.what());
  }
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
