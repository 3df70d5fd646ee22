// A strategy, and the degrees that it gives.
#include "compiler/formats/strategy.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto strategy = ucp::ParseStrategy(ucp::fuzz::Text(data, size));
  if (!strategy) {
    UCP_CHECK(!ucp::TakeFailure(strategy.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  if (auto degrees = ucp::ParseDegrees(*strategy); !degrees) llvm::consumeError(degrees.takeError());
  return 0;
}
