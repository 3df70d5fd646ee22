// The state of a rank as bytes, on its way to the writer.
#include "runtime/job_state/job_state.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

HeldState Sample() {
  HeldEntry weight{"model.w", {"model", "w"}, true, DType::kBFloat16, {4, 3}, {{{0, 0}, {2, 3}}, {{3, 0}, {1, 3}}}};
  HeldEntry scalar{
      "optimizer.state.w.step", {"optimizer", "state", "w", "step"}, true, DType::kFloat32, {}, {{{}, {}}}};
  HeldEntry value{"list.3", {"list", std::int64_t{3}}, false, DType::kFloat32, {}, {}};
  return {weight, scalar, value};
}

TEST(JobStateTest, ComesBack) {
  llvm::Expected<HeldState> read = DecodeHeldState(Encode(Sample()));
  ASSERT_TRUE(static_cast<bool>(read));
  EXPECT_EQ(*read, Sample());
  EXPECT_EQ(DecodeHeldState(Encode(HeldState())).get().size(), 0U);
}

TEST(JobStateTest, NoPrefixIsTaken) {
  const std::string bytes = Encode(Sample());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    llvm::Expected<HeldState> read = DecodeHeldState(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(static_cast<bool>(read)) << size;
    EXPECT_EQ(TakeFailure(read.takeError()).code, ErrorCode::kBadData);
  }
  EXPECT_FALSE(static_cast<bool>(DecodeHeldState(bytes + "x")) || false);
}

// Whatever a byte becomes, the reader takes it or refuses it, and nothing else happens.
TEST(JobStateTest, AnyByteMayBeDamaged) {
  const std::string bytes = Encode(Sample());
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    for (const char change : {'\x01', '\x7f', '\xff'}) {
      std::string damaged = bytes;
      damaged[place] = static_cast<char>(damaged[place] ^ change);
      llvm::Expected<HeldState> read = DecodeHeldState(damaged);
      llvm::consumeError(read.takeError());
    }
  }
}

}  // namespace
}  // namespace ucp
