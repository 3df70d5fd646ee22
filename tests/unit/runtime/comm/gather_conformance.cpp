#include "tests/unit/runtime/comm/gather_conformance.h"

#include <gtest/gtest.h>

#include <string>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// Another text for each rank and round, all of whose bytes can be told from those of a shifted one.
std::string Text(int rank, int round, std::size_t bytes) {
  std::string text(bytes, '\0');
  auto state = static_cast<std::uint32_t>(rank * 1000 + round + 1);
  for (char& byte : text) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return text;
}

}  // namespace

void CheckGathers(Communicator& ranks) {
  // From nothing at all to more than is sent at once, and never as much of one rank as of the next one.
  constexpr std::size_t kSizes[] = {0, 1, 0, 7, 4096, 100'000, 3, 9'000'001, 0, 12};
  constexpr int kCount = std::size(kSizes);
  for (int round = 0; round < kCount; ++round) {
    auto size_of = [&](int rank) { return kSizes[(round + rank) % kCount]; };
    auto all = ranks.AllGather(Text(ranks.rank(), round, size_of(ranks.rank())));
    ASSERT_TRUE(static_cast<bool>(all)) << llvm::toString(all.takeError());
    ASSERT_EQ(all->size(), static_cast<std::size_t>(ranks.size()));
    for (int rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_TRUE((*all)[static_cast<std::size_t>(rank)] == Text(rank, round, size_of(rank)))
          << "of rank " << rank << " in round " << round << " at rank " << ranks.rank();
    }
  }
  llvm::Error outcome =
      Agree(ranks, ranks.rank() == ranks.size() - 1 ? Fail(ErrorCode::kBadData, "damaged") : llvm::Error::success());
  ASSERT_TRUE(static_cast<bool>(outcome));
  EXPECT_TRUE(Describe(std::move(outcome)).message.ends_with("damaged"));
}

}  // namespace ucp
