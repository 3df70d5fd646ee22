// The size of docs/algebra.md: a GPT of a trillion parameters under ZeRO-1, 1,024 ranks (tp 8, pp 16, dp 8) to 768 (tp
// 4, pp 12, dp 16). There are no files, only what their headers would say. Time and memory are printed; counts and the
// size of the plan are checked.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <set>

#include "compiler/plan/codec.h"
#include "compiler/plan/steps.h"
#include "compiler/planner/join.h"
#include "compiler/planner/planner.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::int64_t kLayers = 128;
constexpr std::int64_t kHidden = 25600;

ShapeExpr N(std::int64_t length) { return ShapeExpr::Length(length); }
ShapeExpr Tp(std::int64_t length) { return ShapeExpr::Cut(N(length), {"tp"}); }

// Twelve tensors in each layer, as algebra.md counts 1,536 of them.
std::vector<std::pair<std::string, std::vector<ShapeExpr>>> TensorsOfALayer() {
  ShapeExpr qkv = ShapeExpr::Product({Tp(160), N(3), N(160)});
  return {{"attention.dense.bias", {N(kHidden)}},
          {"attention.dense.weight", {N(kHidden), ShapeExpr::Product({Tp(160), N(160)})}},
          {"attention.qkv.bias", {qkv}},
          {"attention.qkv.weight", {qkv, N(kHidden)}},
          {"input_norm.bias", {N(kHidden)}},
          {"input_norm.weight", {N(kHidden)}},
          {"mlp.down.bias", {N(kHidden)}},
          {"mlp.down.weight", {N(kHidden), Tp(4 * kHidden)}},
          {"mlp.up.bias", {Tp(4 * kHidden)}},
          {"mlp.up.weight", {Tp(4 * kHidden), N(kHidden)}},
          {"post_norm.bias", {N(kHidden)}},
          {"post_norm.weight", {N(kHidden)}}};
}

struct Side {
  Layout layout;
  TargetFiles files;
};

struct Degrees {
  std::int64_t tp;
  std::int64_t pp;
  std::int64_t dp;
};

// One shard, by one flat buffer for each (pp, tp), with one part for each dp rank.
class SideBuilder {
 public:
  explicit SideBuilder(Degrees degrees) : degrees_(degrees) {
    side_.layout.mesh = side_.files.mesh = {{{"pp", degrees.pp}, {"dp", degrees.dp}, {"tp", degrees.tp}}};
  }

  Side Build() {
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      for (const auto& [name, dims] : TensorsOfALayer()) {
        TensorLayout tensor;
        tensor.name = fmt::format("layers.{:03}.{}", layer, name);
        tensor.dims = dims;
        tensor.stages = {layer * degrees_.pp / kLayers};
        side_.layout.tensors.push_back(tensor);
      }
    }
    for (std::int64_t pp = 0; pp < degrees_.pp; ++pp) {
      for (std::int64_t tp = 0; tp < degrees_.tp; ++tp) AddRank(pp, tp);
    }
    return std::move(side_);
  }

 private:
  void AddRank(std::int64_t pp, std::int64_t tp) {
    Coordinate coordinate{{{"pp", pp}, {"tp", tp}}};
    std::int64_t base = 0;
    std::vector<Shard> shards;
    for (const TensorLayout& tensor : side_.layout.tensors) {
      if (tensor.stages->front() != pp) continue;
      ProductSet set = llvm::cantFail(HeldAt(tensor, side_.layout.mesh, coordinate));
      Shard shard;
      shard.tensor = tensor.name;
      shard.coordinate = coordinate;
      shard.shape = set.LocalShape();
      shard.base = base;
      base += set.local_elements();
      shards.push_back(shard);
    }
    BufferSetId states = AddBuffer(fmt::format("pp{}_tp{}", pp, tp), base);
    for (Shard& shard : shards) {
      shard.states = states;
      side_.files.storage.shards.push_back(shard);
    }
  }

  BufferSetId AddBuffer(const std::string& stem, std::int64_t elements) {
    Storage& storage = side_.files.storage;
    std::int64_t part = (elements + degrees_.dp - 1) / degrees_.dp;
    BufferSet set;
    for (const char* state : {"exp_avg", "exp_avg_sq", "fp32"}) {
      Buffer buffer{DType::kFloat32, part, {}};
      for (std::int64_t dp = 0; dp < degrees_.dp; ++dp) {
        std::int64_t held = std::min(part, elements - dp * part);
        auto bytes = static_cast<std::uint64_t>(held) * 4;
        FileId file = storage.Add(StoredFile{fmt::format("{}_dp{}_{}.bin", stem, dp, state), bytes, ""});
        RecordId record = storage.Add(Record{file, 0, bytes, std::nullopt});
        buffer.parts.push_back({record, 0, held});
      }
      set.push_back({state, storage.Add(buffer)});
    }
    return storage.Add(set);
  }

  Degrees degrees_;
  Side side_;
};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Count {
  std::size_t ranges = 0;  // Of one state.
  std::int64_t pairs = 0;  // Of a shard that is read and one that is written.
  std::size_t steps = 0;
};

Count CountOf(const Plan& plan) {
  Count count;
  StepEnumerator enumerator(plan);
  std::set<std::pair<std::size_t, std::size_t>> pairs;
  auto start = std::chrono::steady_clock::now();
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    if (range.state != "fp32") return;
    ++count.ranges;
    enumerator.ForEachStep(range, [&](const Step& step) {
      ++count.steps;
      pairs.emplace(step.read, range.write);
    });
  });
  double seconds = SecondsSince(start);
  count.pairs = std::ssize(pairs);
  std::size_t bytes = llvm::cantFail(EncodePlan(plan)).size();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "%zu ranges, %zu pairs and %zu steps of one state, enumerated in %.3f s; %zu sets, %zu geometries, %zu bytes, "
      "peak "
      "memory %ld MB\n",
      count.ranges, count.pairs, count.steps, seconds, plan.sets.size(), plan.geometries.size(), bytes,
      usage.ru_maxrss / 1024);
  // Sets and geometries are as many as there are ways to cut, not as there are tensors or ranks.
  EXPECT_LT(plan.sets.size(), 100u);
  EXPECT_LT(plan.geometries.size(), 100u);
  EXPECT_LT(bytes, 4'000'000u);
  EXPECT_LT(count.steps, 2 * pairs.size());
  return count;
}

TEST(PlannerScaleTest, ATrillionParametersFrom1024To768Ranks) {
  Side source = SideBuilder({8, 16, 8}).Build();
  Side target = SideBuilder({4, 12, 16}).Build();
  Inventory inventory;
  inventory.mesh = source.layout.mesh;
  inventory.storage = source.files.storage;
  std::vector<LogicalTensor> tensors = llvm::cantFail(JoinTensors(source.layout, inventory));
  EXPECT_EQ(tensors.size(), 1536u);
  EXPECT_EQ(inventory.storage.shards.size(), 12'288u);

  for (ReplicaPolicy replicas : {ReplicaPolicy::kTrust, ReplicaPolicy::kCompare}) {
    auto start = std::chrono::steady_clock::now();
    auto plan = MakePlan({source.layout, inventory, target.layout, tensors, "", replicas}, target.files);
    ASSERT_TRUE(static_cast<bool>(plan)) << TakeFailure(plan.takeError()).message;
    std::printf("planned and verified in %.2f s\n", SecondsSince(start));
    Count count = CountOf(*plan);
    bool compares = replicas == ReplicaPolicy::kCompare;
    // In each layer six tensors are cut: each of eight shards lies in one of the target's four. Six are on all ranks:
    // the first copy meets all four, and the other seven are compared with one of these.
    EXPECT_EQ(count.pairs, kLayers * (6 * 8 + 6 * (4 + (compares ? 7 : 0))));
    EXPECT_EQ(count.ranges, 6'848u);
  }
}

}  // namespace
}  // namespace ucp
