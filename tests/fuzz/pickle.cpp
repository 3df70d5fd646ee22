// A pickle that is read is written again, and then reads the same.
#include "compiler/formats/pytorch/pickle/pickle_reader.h"
#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ucp::pytorch;
  auto pickle = ReadPickle(ucp::fuzz::Text(data, size));
  if (!pickle) {
    UCP_CHECK(!ucp::TakeFailure(pickle.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  auto again = ReadPickle(WritePickle(*pickle->root));
  UCP_CHECK(static_cast<bool>(again), "{}", ucp::TakeFailure(again.takeError()).message);
  UCP_CHECK(Print(*again->root) == Print(*pickle->root), "written, it reads otherwise");
  return 0;
}
