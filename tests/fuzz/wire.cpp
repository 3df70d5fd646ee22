// Messages of ranks: the codec, driven by the input, and what the largest messages are made of. Whatever is refused is
// refused with a reason, and what is accepted is written again as the same bytes.
#include <string>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/peer_files/request.h"
#include "runtime/wire/byte_codec.h"
#include "tests/fuzz/target.h"

namespace {

using ucp::wire::ByteReader;
using ucp::wire::ByteWriter;

// Values that are read, in an order that the numbers themselves decide, are those that were written.
void Codec(std::string_view bytes) {
  ByteReader reader(bytes);
  ByteWriter again;
  while (!reader.left().empty()) {
    const std::size_t before = reader.left().size();
    const std::uint64_t number = reader.Number();
    UCP_CHECK(reader.left().size() + sizeof(number) == before || reader.has_failed(), "{} bytes left", before);
    if (reader.has_failed()) return;
    again.Add(number);
    if (number % 4 != 3) continue;
    const std::string text = reader.Text();
    if (reader.has_failed()) {
      UCP_CHECK(reader.left().empty() && reader.Number() == 0 && reader.Text().empty(), "read on after a failure");
      return;
    }
    again.Add(std::string_view(text));
  }
  UCP_CHECK(reader.has_failed() || again.bytes() == bytes || bytes.size() == ucp::wire::kHeadBytes,
            "written again, {} bytes became {}", bytes.size(), again.bytes().size());
}

template <typename Message>
void Decoded(llvm::Expected<Message> message, std::string_view bytes) {
  if (!message) {
    UCP_CHECK(!ucp::TakeFailure(message.takeError()).message.empty(), "refused without a reason");
    return;
  }
  const std::string again = ucp::Encode(*message);
  ByteReader reader(again);
  UCP_CHECK(!reader.has_failed() && again.size() == bytes.size(), "{} bytes became {}", bytes.size(), again.size());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = ucp::fuzz::Text(data, size);
  Codec(bytes);
  Decoded(ucp::DecodeRequest(bytes), bytes);
  Decoded(ucp::DecodeLooks(bytes), bytes);
  return 0;
}
