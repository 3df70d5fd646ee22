// The computations of a kernel, on the host: however the numbers are divided among lanes, each is done, and done once.
#include "runtime/gpu/move.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/runtime/gpu/devices.h"

namespace ucp {
namespace {

TEST(MoveTest, EachUnitIsDoneByOneLane) {
  for (std::uint32_t lanes : {1U, 3U, 32U, 256U}) {
    for (std::uint64_t bytes : {0U, 1U, 2U, 12U, 256U, 1000U, 4096U, 4097U}) {
      alignas(16) std::byte from[8192];
      const std::vector<std::byte> content = testing::RandomBytes(sizeof from, 1);
      std::copy(content.begin(), content.end(), from);
      std::vector<int> times(8192, 0);
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        alignas(16) std::byte to[8192];
        for (std::size_t i = 0; i < sizeof to; ++i) to[i] = ~from[i];
        const UcpMove move{reinterpret_cast<std::uintptr_t>(to), bytes, 0, kUcpBytes, kUcpBytes};
        MoveShare(move, from, {lane, lanes});
        for (std::size_t i = 0; i < sizeof to; ++i) times[i] += to[i] == from[i] ? 1 : 0;
      }
      for (std::size_t i = 0; i < times.size(); ++i) {
        ASSERT_EQ(times[i], i < bytes ? 1 : 0) << "byte " << i << " of " << bytes << " with " << lanes << " lanes";
      }
    }
  }
}

TEST(MoveTest, NumbersAreCastByTheLaneThatTheyAreOf) {
  const float from[] = {1.0F, 2.5F, -3.0F, 1e30F, 0.1F};
  for (std::uint32_t lanes : {1U, 2U, 7U}) {
    double to[5] = {};
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      const UcpMove move{reinterpret_cast<std::uintptr_t>(to), 5, 0, kUcpFloat32, kUcpFloat64};
      MoveShare(move, reinterpret_cast<const std::byte*>(from), {lane, lanes});
    }
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(to[i], double{from[i]});
  }
}

}  // namespace
}  // namespace ucp
