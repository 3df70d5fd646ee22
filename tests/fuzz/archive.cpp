// A `.pt` file: every storage that is accepted lies in the file.
#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "tests/fuzz/memory_files.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto archive = ucp::pytorch::ReadArchive(*ucp::fuzz::MemoryFile(ucp::fuzz::Text(data, size)));
  if (!archive) {
    UCP_CHECK(!ucp::TakeFailure(archive.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  for (const auto& [key, extent] : archive->storages) {
    UCP_CHECK(extent.data.offset <= size && extent.data.bytes <= size - extent.data.offset,
              "storage {} is outside of the file", key);
  }
  return 0;
}
