#include "runtime/convert/node_local.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/convert/parts_of_source.h"
#include "runtime/manifest/part_of_checkpoint.h"

namespace ucp {
namespace {

constexpr const char* kSource = "source";
constexpr const char* kDestination = "destination";

bool Has(const NodeLocal& node_local, const char* word) {
  return std::ranges::find(node_local.words, word) != node_local.words.end();
}

}  // namespace

bool NodeLocal::source() const { return Has(*this, kSource); }
bool NodeLocal::destination() const { return Has(*this, kDestination); }

void AddNodeLocalOption(CLI::App& command, NodeLocal& node_local, NodeLocalUse use) {
  std::string text =
      "What is spread over the nodes' own disks; the ranks of mpirun send one another what they "
      "need. source: the checkpoint";
  if (use == NodeLocalUse::kWrites)
    text += "; destination: OUT, of which each node gets what its ranks of the job open";
  command.add_option("--node-local", node_local.words, text)
      ->type_name("WHAT")
      ->delimiter(',')
      ->allow_extra_args(false);
}

llvm::Error CheckNodeLocal(const NodeLocal& node_local, NodeLocalUse use, const Communicator& ranks) {
  for (const std::string& word : node_local.words) {
    if (word == kSource || (word == kDestination && use == NodeLocalUse::kWrites)) continue;
    return Fail(ErrorCode::kUsage, "--node-local takes {}, not `{}`",
                use == NodeLocalUse::kWrites ? "`source`, `destination` or both with a comma" : "`source`", word);
  }
  if (node_local.words.empty() || ranks.size() > 1) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "--node-local is for several ranks, and here is one; start it on all nodes: mpirun -n N ucprun …");
}

llvm::Expected<std::unique_ptr<FilesOfAllRanks>> NodesOfSource(FileSystem& files, const NodeLocal& node_local,
                                                               NodeLocalUse use, const std::string& path,
                                                               Communicator& ranks) {
  UCP_RETURN_IF_ERROR(CheckNodeLocal(node_local, use, ranks));
  if (!node_local.source()) {
    UCP_RETURN_IF_ERROR(
        OutcomeOfFirstRank(ranks, ranks.rank() == 0 ? CheckIsWhole(files, path) : llvm::Error::success()));
    return nullptr;
  }
  UCP_RETURN_IF_ERROR(FindPartsOfSource(files, path, ranks).takeError());
  return FilesOfAllRanks::Start(ranks, files);
}

}  // namespace ucp
