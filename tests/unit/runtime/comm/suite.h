// The duties of every communicator, whatever carries it.
#pragma once

#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace ucp {

enum class AskingToStop { kReachesAll, kReachesNobody };

// All ranks call it. Sentences about what is not as it must be; none if all is well. Stopping is looked at last, after
// which the ranks are of no further use.
std::vector<std::string> RunCommunicatorSuite(Communicator& ranks, AskingToStop asking = AskingToStop::kReachesAll);

// AllGather() alone, so that the default functions of a communicator are also tested.
class ThroughAllGather : public Communicator {
 public:
  explicit ThroughAllGather(Communicator& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) override {
    return ranks_.AllGather(mine);
  }
  void AskToStop() override { ranks_.AskToStop(); }
  bool IsAskedToStop() override { return ranks_.IsAskedToStop(); }

 private:
  Communicator& ranks_;
};

}  // namespace ucp
