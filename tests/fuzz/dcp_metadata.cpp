// Metadata that is accepted holds together: paths below the folder, and chunks within their tensors. The bytes are read
// as `.metadata`, and as `metadata.pkl` of torch_checkpointing.
#include "compiler/formats/dcp/metadata.h"
#include "compiler/formats/dcp/torch_checkpointing/rank_metadata.h"
#include "compiler/formats/dcp/torch_checkpointing/rank_shares.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "tests/fuzz/target.h"

namespace {

void CheckRankMetadata(std::string_view pickle) {
  using namespace ucp::dcp;
  auto metadata = ReadRankMetadata(pickle);
  if (!metadata) {
    UCP_CHECK(!ucp::TakeFailure(metadata.takeError()).message.empty(), "refused without a reason");
    return;
  }
  RankShares shares(*metadata);
  for (const RankItem& item : metadata->items) {
    UCP_CHECK(std::ssize(item.files) == metadata->world_size, "`{}` lacks files", item.name);
    for (const SharedTensor& tensor : item.tensors) {
      auto of_tensor = shares.Of(tensor);
      if (!of_tensor) return llvm::consumeError(of_tensor.takeError());
      for (const RankShare& share : **of_tensor) {
        UCP_CHECK(share.rank < metadata->world_size, "rank {} does not exist", share.rank);
        for (const SharePiece& piece : share.pieces) {
          for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
            UCP_CHECK(piece.offsets[d] + piece.sizes[d] <= tensor.shape[d], "`{}` is left by a piece", item.name);
            UCP_CHECK(piece.local[d] + piece.sizes[d] <= share.sizes[d], "`{}` has no such part", item.name);
          }
        }
      }
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ucp::dcp;
  CheckRankMetadata(ucp::fuzz::Text(data, size));
  auto metadata = ReadMetadata(ucp::fuzz::Text(data, size));
  if (!metadata) {
    UCP_CHECK(!ucp::TakeFailure(metadata.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  for (const std::string& file : metadata->files) {
    UCP_CHECK(!file.empty() && file.front() != '/' && !file.ends_with(".."), "`{}` leaves the folder", file);
  }
  for (const Entry& entry : metadata->entries) {
    UCP_CHECK(!entry.chunks.empty(), "`{}` has no chunk", entry.key);
    for (const Chunk& chunk : entry.chunks) {
      UCP_CHECK(chunk.place.file < metadata->files.size(), "`{}` lies in no file", entry.key);
      for (std::size_t d = 0; d < chunk.sizes.size(); ++d) {
        UCP_CHECK(chunk.offsets[d] + chunk.sizes[d] <= entry.shape[d], "`{}` is left by a chunk", entry.key);
      }
    }
  }
  return 0;
}
