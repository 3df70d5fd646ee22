// Plans between strategies of DeepSpeed, compared with a count of single elements that knows ZeRO's rules and no plan.
#include "runtime/transitions/moved_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile/compile.h"
#include "compiler/files/readable_file_system.h"
#include "compiler/synthetic/planned_source.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using ::testing::Contains;
using ::testing::DoubleEq;

constexpr std::int64_t kVocab = 8;
constexpr std::int64_t kHidden = 5;
constexpr std::int64_t kFfn = 12;
constexpr const char* kSmallSpec = R"(ucp 1
dim vocab
dim hidden
dim ffn
mesh pp, dp, tp
layout small {
  "embed.weight" [vocab@tp, hidden]
  "norm.weight"  [hidden]
  "down.weight"  [hidden, ffn@tp]
}
)";

struct Degrees {
  std::int64_t tp = 1;
  std::int64_t dp = 1;
  int zero = 1;
  std::int64_t nodes = 1;

  std::string Text() const {
    return "deepspeed:tp=" + std::to_string(tp) + ",dp=" + std::to_string(dp) + ",zero=" + std::to_string(zero);
  }
  // Tensor-parallel ranks are neighbours.
  std::int64_t NodeOf(std::int64_t dp_rank, std::int64_t tp_rank) const {
    return (dp_rank * tp + tp_rank) / (tp * dp / nodes);
  }
};

using Element = std::pair<std::string, std::int64_t>;  // Of a whole tensor, row-major.

// The elements of each tensor at a tensor-parallel rank, as the optimizer has them.
std::vector<std::vector<Element>> TensorsAt(const Degrees& degrees, std::int64_t tp_rank) {
  std::vector<std::vector<Element>> tensors(3);
  const std::int64_t rows = kVocab / degrees.tp;
  for (std::int64_t i = rows * tp_rank; i < rows * (tp_rank + 1); ++i) {
    for (std::int64_t j = 0; j < kHidden; ++j) tensors[0].emplace_back("embed.weight", i * kHidden + j);
  }
  for (std::int64_t i = 0; i < kHidden; ++i) tensors[1].emplace_back("norm.weight", i);
  const std::int64_t columns = kFfn / degrees.tp;
  for (std::int64_t i = 0; i < kHidden; ++i) {
    for (std::int64_t j = columns * tp_rank; j < columns * (tp_rank + 1); ++j) {
      tensors[2].emplace_back("down.weight", i * kFfn + j);
    }
  }
  return tensors;
}

// The data-parallel rank that has each element's master: stages 1 and 2 cut one long vector, whose length is a multiple
// of twice the ranks, and stage 3 each tensor.
std::map<Element, std::int64_t> OwnersAt(const Degrees& degrees, std::int64_t tp_rank) {
  std::map<Element, std::int64_t> owners;
  const std::vector<std::vector<Element>> tensors = TensorsAt(degrees, tp_rank);
  std::int64_t all = 0;
  for (const std::vector<Element>& tensor : tensors) all += std::ssize(tensor);
  const std::int64_t grain = 2 * degrees.dp;
  const std::int64_t part = (all + grain - 1) / grain * grain / degrees.dp;
  std::int64_t place = 0;
  for (const std::vector<Element>& tensor : tensors) {
    const std::int64_t part_of_tensor = (std::ssize(tensor) + degrees.dp - 1) / degrees.dp;
    for (std::int64_t i = 0; i < std::ssize(tensor); ++i, ++place) {
      owners[tensor[static_cast<std::size_t>(i)]] = degrees.zero == 3 ? i / part_of_tensor : place / part;
    }
  }
  return owners;
}

// An element that several tensor-parallel ranks hold is taken from the first of them.
std::map<Element, std::int64_t> HoldingNodes(const Degrees& degrees) {
  std::map<Element, std::int64_t> nodes;
  for (std::int64_t t = 0; t < degrees.tp; ++t) {
    for (const auto& [element, owner] : OwnersAt(degrees, t)) nodes.try_emplace(element, degrees.NodeOf(owner, t));
  }
  return nodes;
}

// By the node that needs them and the one that has them. Each rank needs its part of the master and of both moments,
// and for the weights that it computes with, under stages 1 and 2, all masters of its tensor-parallel rank.
std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> Oracle(const Degrees& before, const Degrees& after) {
  std::map<std::string, std::set<std::pair<std::int64_t, Element>>> needed;
  for (std::int64_t t = 0; t < after.tp; ++t) {
    for (const auto& [element, owner] : OwnersAt(after, t)) {
      for (const char* state : {"fp32", "exp_avg", "exp_avg_sq"}) {
        needed[state].insert({after.NodeOf(owner, t), element});
      }
      for (std::int64_t d = 0; after.zero != 3 && d < after.dp; ++d) {
        needed["fp32"].insert({after.NodeOf(d, t), element});
      }
    }
  }
  const std::map<Element, std::int64_t> holders = HoldingNodes(before);
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> bytes;
  for (const auto& [state, elements] : needed) {
    for (const auto& [node, element] : elements) bytes[{node, holders.at(element)}] += 4;
  }
  return bytes;
}

class MovedPartsTest : public testing::Test {
 protected:
  MovedPartsTest() { WriteTestFile(path_, kSmallSpec); }

  std::vector<MovedPart> Plan(const Degrees& before, const Degrees& after) const {
    CompileRequest request;
    request.source.path = before.Text();
    request.source.spec = path_;
    request.source.set = llvm::cantFail(ParseSettings({"vocab=8", "hidden=5", "ffn=12"}));
    request.target = after.Text();
    request.replicas = ReplicaPolicy::kTrust;
    FileReaders holders;
    BoundSource source = llvm::cantFail(BindStrategy(RealFiles(), request, &holders));
    const Compiled compiled = llvm::cantFail(CompileBound(RealFiles(), request, std::move(source)));
    return MovedParts(compiled.plan, holders, before.nodes, after.nodes);
  }

 private:
  const ScratchFolder folder_;
  const std::string path_ = folder_.Path("small.ucp");
};

TEST_F(MovedPartsTest, AsSingleElements) {
  const std::vector<Degrees> all = {{.tp = 1, .dp = 1, .nodes = 1}, {.tp = 2, .dp = 2, .nodes = 2},
                                    {.tp = 2, .dp = 3, .nodes = 3}, {.tp = 4, .dp = 2, .nodes = 2},
                                    {.tp = 4, .dp = 1, .nodes = 2}, {.tp = 2, .dp = 2, .zero = 3, .nodes = 4},
                                    {.tp = 1, .dp = 6, .nodes = 3}, {.tp = 1, .dp = 5, .zero = 3, .nodes = 5}};
  for (const Degrees& before : all) {
    for (const Degrees& after : all) {
      SCOPED_TRACE(before.Text() + " to " + after.Text());
      std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> counted;
      for (const MovedPart& part : Plan(before, after)) {
        ASSERT_EQ(part.held_by.size(), 1U);
        counted[{part.to, part.held_by.front()}] += part.bytes;
      }
      EXPECT_EQ(counted, Oracle(before, after));
    }
  }
}

// Without ZeRO each data-parallel rank has everything.
TEST_F(MovedPartsTest, WhatAllHold) {
  const Degrees alike{.tp = 1, .dp = 3, .zero = 0, .nodes = 3};
  const std::vector<MovedPart> parts = Plan(alike, alike);
  EXPECT_EQ(parts.size(), 3U);  // One for each node.
  for (const MovedPart& part : parts) EXPECT_EQ(part.held_by, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(BytesOfBusiestNode(parts, {0, 1, 2}, 3, llvm::cantFail(PlaceMachines(3, 1))), 0);
}

TEST(BytesOfBusiestNodeTest, SentAndReceived) {
  const std::vector<MovedPart> parts = {{0, {0}, 100}, {1, {0}, 60}, {2, {0}, 50}, {2, {0, 1}, 40}, {2, {3}, 7}};
  const auto busiest = [&](const std::vector<std::int64_t>& kept, std::int64_t copies) {
    return BytesOfBusiestNode(parts, kept, 3, llvm::cantFail(PlaceMachines(4, copies)));
  };
  EXPECT_THAT(busiest({0, 1}, 1), DoubleEq(60 + 50 + 20));     // Node 0 sends; nobody has the 7, which storage has.
  EXPECT_THAT(busiest({0, 1}, 2), DoubleEq(50 + 40 + 7));      // The place 2 receives; 0 and 1 have the same.
  EXPECT_THAT(busiest({0, 1, 2}, 2), DoubleEq(50 + 40));       // The copy of node 3 is on node 2.
  EXPECT_THAT(busiest({1, 2, 3}, 1), DoubleEq(100));           // Node 0 is lost, and its part is on storage.
  EXPECT_THAT(busiest({1, 2, 3}, 2), DoubleEq(60 + 50 + 40));  // Node 1 sends of its copy to both others.
}

}  // namespace
}  // namespace ucp
