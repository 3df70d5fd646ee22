// The first two bytes say how much data follows the header, in units of 64 bytes. A header that is read fills it, and
// reads the same when it is written again.
#include "compiler/formats/safetensors/header.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ucp::safetensors;
  if (size < 2) return 0;
  const std::uint64_t data_bytes = (std::uint64_t{data[0]} << 8 | data[1]) * 64;
  auto header = ParseHeader(ucp::fuzz::Text(data + 2, size - 2), data_bytes);
  if (!header) {
    UCP_CHECK(!ucp::TakeFailure(header.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  std::uint64_t end = 0;
  for (const HeaderEntry& entry : header->entries) {
    UCP_CHECK(entry.begin == end && entry.end >= entry.begin, "{} is not where {} ends", entry.name, end);
    end = entry.end;
  }
  UCP_CHECK(end == data_bytes, "{} of {} bytes are a tensor's", end, data_bytes);
  Header arranged = *header;
  Arrange(arranged);
  auto again = ParseHeader(std::string_view(ComposeHeader(arranged)).substr(8), data_bytes);
  UCP_CHECK(static_cast<bool>(again), "{}", ucp::TakeFailure(again.takeError()).message);
  UCP_CHECK(*again == arranged, "written, it reads otherwise");
  return 0;
}
