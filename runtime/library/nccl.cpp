#include "ucp/nccl.h"

#include "runtime/comm/nccl_ranks.h"
#include "runtime/library/call.h"

namespace ucp {
namespace {

class RanksOfNccl : public Ranks {
 public:
  explicit RanksOfNccl(std::unique_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}

  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  std::vector<std::string> AllGather(const std::string& mine) override { return Take(ranks_->AllGather(mine)); }

 private:
  std::unique_ptr<Communicator> ranks_;
};

}  // namespace

inline namespace v0 {

std::string MakeNcclId(const std::string& library) { return Take(NewNcclId(library)); }

std::unique_ptr<Ranks> JoinNccl(int rank, int size, const std::string& id, const NcclSettings& settings) {
  return std::make_unique<RanksOfNccl>(
      Take(ConnectByNccl({rank, size, id, settings.device, settings.timeout_seconds, settings.library})));
}

}  // namespace v0
}  // namespace ucp
