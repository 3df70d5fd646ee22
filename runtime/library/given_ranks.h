// The ranks that a caller of the library gives, as the runtime knows ranks.
#pragma once

#include "runtime/comm/communicator.h"
#include "ucp/ranks.h"

namespace ucp {

class GivenRanks : public Communicator {
 public:
  // Null: this process alone. Throws Error if they say that this is rank 3 of 2, or do not all deliver, or all not.
  explicit GivenRanks(Ranks* given);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override;
  llvm::Error Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) override;
  bool DeliversAllToAll() const override { return !delivers_; }
  void AskToStop() override;
  bool IsAskedToStop() override;

 private:
  [[nodiscard]] llvm::Error FindWhetherTheyDeliver();

  Ranks* given_;
  int rank_ = 0;
  int size_ = 1;
  bool delivers_ = false;  // To one rank alone.
};

}  // namespace ucp
