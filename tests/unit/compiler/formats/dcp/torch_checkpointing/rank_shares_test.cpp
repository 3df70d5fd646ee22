// The boxes of ranks, compared with lists of single indices that are cut as torch.chunk cuts.
#include "compiler/formats/dcp/torch_checkpointing/rank_shares.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

using Indices = std::vector<std::int64_t>;
using Kind = Placement::Kind;

std::vector<Indices> Chunk(const Indices& of, std::size_t parts) {
  const std::size_t largest = (of.size() + parts - 1) / parts;
  std::vector<Indices> chunks(parts);
  for (std::size_t i = 0; i < of.size(); ++i) chunks[i / largest].push_back(of[i]);
  return chunks;
}

Indices Shard(const Indices& of, const Placement& placement, std::int64_t ranks, std::int64_t rank) {
  Indices taken;
  for (const Indices& outer : Chunk(of, static_cast<std::size_t>(placement.split_factor))) {
    const Indices inner = Chunk(outer, static_cast<std::size_t>(ranks))[static_cast<std::size_t>(rank)];
    taken.insert(taken.end(), inner.begin(), inner.end());
  }
  return taken;
}

// The indices that the rank at these coordinates has, along each dimension.
std::vector<Indices> Truth(const SharedTensor& tensor, const RankMesh& mesh, const Indices& coordinates) {
  std::vector<Indices> dims;
  for (const std::int64_t size : tensor.shape) {
    dims.emplace_back(static_cast<std::size_t>(size));
    std::iota(dims.back().begin(), dims.back().end(), 0);
  }
  for (std::size_t d = 0; d < mesh.shape.size(); ++d) {
    const Placement& placement = tensor.placements[d];
    if (placement.kind == Kind::kReplicate) continue;
    dims[placement.dim] = Shard(dims[placement.dim], placement, mesh.shape[d], coordinates[d]);
  }
  return dims;
}

RankMetadata MetadataOf(Indices shape, Indices ranks) {
  RankMetadata metadata;
  metadata.world_size = 64;
  const std::int64_t first = std::ranges::min(ranks);
  metadata.meshes.push_back({std::move(shape), std::move(ranks), first});
  return metadata;
}

SharedTensor TensorOf(std::vector<std::int64_t> shape, std::vector<Placement> placements) {
  SharedTensor tensor;
  tensor.shape = std::move(shape);
  tensor.placements = std::move(placements);
  return tensor;
}

// Each rank's pieces are its indices, and all together are the tensor once.
void ExpectTruth(const RankMetadata& metadata, const SharedTensor& tensor) {
  SCOPED_TRACE(fmt::format("{} on {}", tensor.shape, metadata.meshes[0].shape));
  RankShares shares(metadata);
  auto found = shares.Of(tensor);
  ASSERT_TRUE(static_cast<bool>(found)) << TakeFailure(found.takeError()).message;
  const RankMesh& mesh = metadata.meshes[0];
  std::set<Indices> seen;  // Rows and columns.
  for (const RankShare& share : **found) {
    const auto at = std::ranges::find(mesh.ranks, share.rank) - mesh.ranks.begin();
    const Indices coordinates = {at / mesh.shape[1], at % mesh.shape[1]};
    const std::vector<Indices> truth = Truth(tensor, mesh, coordinates);
    EXPECT_EQ(share.sizes[0], std::ssize(truth[0]));
    EXPECT_EQ(share.sizes[1], std::ssize(truth[1]));
    std::int64_t elements = 0;
    for (const SharePiece& piece : share.pieces) {
      for (std::int64_t row = 0; row < piece.sizes[0]; ++row) {
        for (std::int64_t column = 0; column < piece.sizes[1]; ++column, ++elements) {
          EXPECT_EQ(truth[0][static_cast<std::size_t>(piece.local[0] + row)], piece.offsets[0] + row);
          EXPECT_EQ(truth[1][static_cast<std::size_t>(piece.local[1] + column)], piece.offsets[1] + column);
          EXPECT_TRUE(seen.insert({piece.offsets[0] + row, piece.offsets[1] + column}).second);
        }
      }
    }
    EXPECT_EQ(elements, share.sizes[0] * share.sizes[1]);
  }
  EXPECT_EQ(std::ssize(seen), tensor.shape[0] * tensor.shape[1]);
}

TEST(RankSharesTest, AreThoseOfTorchChunk) {
  const std::array<Placement, 5> placements = {Placement{Kind::kReplicate, 0, 1}, Placement{Kind::kShard, 0, 1},
                                               Placement{Kind::kShard, 1, 1}, Placement{Kind::kStridedShard, 0, 2},
                                               Placement{Kind::kStridedShard, 1, 3}};
  const RankMetadata metadata = MetadataOf({3, 4}, {5, 0, 7, 9, 2, 1, 11, 8, 3, 10, 4, 6});
  for (const Placement& first : placements) {
    for (const Placement& second : placements) {
      for (std::int64_t rows = 1; rows < 15; ++rows)
        ExpectTruth(metadata, TensorOf({rows, 16 - rows}, {first, second}));
    }
  }
}

// FSDP on top of tensor parallelism: the cut of the second dimension of the mesh is the outer one.
TEST(RankSharesTest, ThePartsOfRowsOfTensorParallelism) {
  const RankMetadata metadata = MetadataOf({2, 2}, {0, 1, 2, 3});
  RankShares shares(metadata);
  auto found = shares.Of(TensorOf({13}, {{Kind::kStridedShard, 0, 2}, {Kind::kShard, 0, 1}}));
  ASSERT_TRUE(static_cast<bool>(found));
  std::vector<std::string> lines;
  for (const RankShare& share : **found) {
    for (const SharePiece& piece : share.pieces) {
      lines.push_back(fmt::format("{}: {} at {}", share.rank, piece.sizes[0], piece.offsets[0]));
    }
  }
  EXPECT_THAT(lines, ::testing::ElementsAre("0: 4 at 0", "1: 3 at 7", "2: 3 at 4", "3: 3 at 10"));
}

TEST(RankSharesTest, OfReplicasTheFirstRankCounts) {
  const RankMetadata metadata = MetadataOf({2, 2}, {6, 5, 2, 9});
  RankShares shares(metadata);
  auto found = shares.Of(TensorOf({4}, {{Kind::kReplicate, 0, 1}, {Kind::kShard, 0, 1}}));
  ASSERT_TRUE(static_cast<bool>(found));
  ASSERT_EQ((*found)->size(), 2U);
  EXPECT_EQ((**found)[0].rank, 2);
  EXPECT_EQ((**found)[1].rank, 5);
}

TEST(RankSharesTest, TensorsWithoutElementsAreOnePiece) {
  const RankMetadata metadata = MetadataOf({2}, {0, 1});
  RankShares shares(metadata);
  auto found = shares.Of(TensorOf({0, 3}, {{Kind::kShard, 0, 1}}));
  ASSERT_TRUE(static_cast<bool>(found));
  ASSERT_EQ((*found)->size(), 1U);
  EXPECT_EQ((**found)[0].pieces.size(), 1U);
}

// A number in a file makes no more work than its bytes could.
TEST(RankSharesTest, PiecesAreCounted) {
  const RankMetadata metadata = MetadataOf({2, 2}, {0, 1, 2, 3});
  for (const std::int64_t ranks : {1, 2}) {
    const RankMetadata own = MetadataOf({ranks}, ranks == 1 ? Indices{0} : Indices{0, 1});
    RankShares shares(own);
    auto found = shares.Of(TensorOf({std::int64_t{1} << 40}, {{Kind::kStridedShard, 0, std::int64_t{1} << 39}}));
    ASSERT_FALSE(static_cast<bool>(found));
    EXPECT_EQ(TakeFailure(found.takeError()).message,
              "it describes more than 10000000 pieces of tensors, and so many are read");
  }
  RankShares shares(metadata);
  auto found = shares.Of(TensorOf({std::int64_t{1} << 40}, {{Kind::kShard, 0, 1}, {Kind::kShard, 0, 1}}));
  EXPECT_TRUE(static_cast<bool>(found));
}

}  // namespace
}  // namespace ucp::dcp
