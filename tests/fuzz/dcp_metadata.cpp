// Metadata that is accepted holds together: paths below the folder, and chunks within their tensors.
#include "compiler/formats/dcp/metadata.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ucp::dcp;
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
