#include "runtime/peer_files/node_local.h"

#include "compiler/support/error.h"
#include "compiler/support/user_option.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/peer_files/parts_of_source.h"

namespace ucp {

llvm::Error CheckNodeLocal(const NodeLocal& node_local, const Communicator& ranks) {
  if (ranks.size() > 1 || (!node_local.source && !node_local.destination)) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "{} is for several ranks, and here is one; start it on all nodes: mpirun -n N ucprun …",
              OptionName(UserOption::kNodeLocal));
}

llvm::Expected<std::unique_ptr<FilesOfAllRanks>> NodesOfSource(ReadableFileSystem& files, const NodeLocal& node_local,
                                                               const std::string& path, Communicator& ranks) {
  UCP_RETURN_IF_ERROR(CheckNodeLocal(node_local, ranks));
  if (!node_local.source) {
    UCP_RETURN_IF_ERROR(
        OutcomeOfFirstRank(ranks, ranks.rank() == 0 ? CheckIsWhole(files, path) : llvm::Error::success()));
    return nullptr;
  }
  UCP_RETURN_IF_ERROR(FindPartsOfSource(files, path, ranks).takeError());
  return FilesOfAllRanks::Start(ranks, files);
}

}  // namespace ucp
