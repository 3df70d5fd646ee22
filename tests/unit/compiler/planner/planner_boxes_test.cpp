// Tensors in boxes on both sides. Small ones, many times, by what becomes of every element; and a tensor in a quarter
// of a million and in a million boxes, whose times are printed and compared: they must not grow as the square.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "compiler/layout/from_boxes.h"
#include "compiler/plan/steps.h"
#include "compiler/planner/join.h"
#include "compiler/planner/planner.h"
#include "compiler/support/error.h"
#include "compiler/verifier/verifier.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

// A tensor `a` of float32 weights, each box a file of its own.
struct BoxedSide {
  Layout layout;
  Inventory inventory;
  std::vector<Box> boxes;
};

BoxedSide SideOf(const Shape& shape, const std::vector<Box>& boxes) {
  BoxedSide side;
  side.boxes = boxes;
  BoxedTensor tensor(shape);
  Storage& storage = side.inventory.storage;
  for (const Box& box : boxes) {
    const auto elements = ElementsOf(box);
    const auto bytes = static_cast<std::uint64_t>(4 * elements);
    const FileId file = storage.Add(StoredFile{std::to_string(storage.files.size()), bytes, ""});
    const RecordId record = storage.Add(Record{file, 0, bytes, std::nullopt});
    const BufferId buffer = storage.Add(Buffer{DType::kFloat32, elements, {{record, 0, elements}}});
    Shard shard;
    shard.tensor = "a";
    for (const Positions& positions : box) shard.shape.push_back(ElementsOf({positions}));
    shard.coordinate.at[kBoxAxis] = tensor.PlaceOf(box);
    shard.states = storage.Add(BufferSet{{kWeightState, buffer}});
    storage.shards.push_back(std::move(shard));
  }
  side.layout.tensors.push_back(tensor.Layout("a", "the test"));
  side.layout.mesh.axes = {{kBoxAxis, tensor.boxes()}};
  side.inventory.format = "boxes";
  side.inventory.mesh = side.layout.mesh;
  return side;
}

llvm::Expected<Plan> PlanOf(const BoxedSide& source, const BoxedSide& target) {
  UCP_ASSIGN_OR_RETURN(const std::vector<LogicalTensor> tensors, JoinTensors(source.layout, source.inventory));
  TargetFiles files;
  files.format = "boxes";
  files.mesh = target.layout.mesh;
  files.storage = target.inventory.storage;
  return MakePlan({source.layout, source.inventory, target.layout, tensors, "", ReplicaPolicy::kCompare},
                  std::move(files));
}

// The elements of a box, as numbers of the whole tensor, in the order in which they lie in it.
std::vector<std::int64_t> NumbersOf(const Box& box, const Shape& shape) {
  std::vector<std::int64_t> numbers = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> longer;
    for (std::int64_t number : numbers) {
      for (const PositionRange& range : box[d]) {
        for (std::int64_t at = range.begin; at < range.end; ++at) longer.push_back(number * shape[d] + at);
      }
    }
    numbers = std::move(longer);
  }
  return numbers;
}

// The elements that a step moves, as pairs of places in the source's and the target's record.
template <typename Visit>
void ForEachMoved(const Step& step, Visit visit, std::size_t loop = 0, std::int64_t source = 0,
                  std::int64_t target = 0) {
  if (loop < step.loops.size()) {
    for (std::int64_t i = 0; i < step.loops[loop].count; ++i) {
      ForEachMoved(step, visit, loop + 1, source + i * step.loops[loop].source_stride,
                   target + i * step.loops[loop].target_stride);
    }
    return;
  }
  for (std::int64_t i = 0; i < step.run_elements; ++i) {
    visit(step.source_element + source + i, step.target_element + target + i);
  }
}

// Record r of either side is box r. `chunk`: how many elements are asked for at a time.
void ExpectEveryElement(const Plan& plan, const BoxedSide& source, const BoxedSide& target, const Shape& shape,
                        std::int64_t chunk) {
  std::vector<std::vector<std::int64_t>> held;
  for (const Box& box : source.boxes) held.push_back(NumbersOf(box, shape));
  std::vector<std::vector<std::int64_t>> filled;
  for (const Box& box : target.boxes) filled.emplace_back(static_cast<std::size_t>(ElementsOf(box)), -1);
  std::map<std::int64_t, std::size_t> compared;  // By element: with how many copies.
  const StepEnumerator steps(plan);
  ForEachTargetRange(plan, [&](const TargetRange& whole) {
    for (std::int64_t begin = whole.begin; begin < whole.end; begin += chunk) {
      TargetRange range = whole;
      range.begin = begin;
      range.end = std::min(begin + chunk, whole.end);
      range.record_element += begin - whole.begin;
      steps.ForEachStep(range, [&](const Step& step) {
        ForEachMoved(step, [&](std::int64_t from, std::int64_t to) {
          const std::int64_t number = held[step.source.index()].at(static_cast<std::size_t>(from));
          std::int64_t& place = filled[step.target.index()].at(static_cast<std::size_t>(to));
          if (step.role == ReadRole::kCopy) {
            ASSERT_EQ(place, -1) << "an element is written twice";
            place = number;
          } else {
            ASSERT_EQ(place, number) << "an element is compared with another";
            ++compared[number];
          }
        });
      });
    }
  });
  for (std::size_t box = 0; box < target.boxes.size(); ++box)
    ASSERT_EQ(filled[box], NumbersOf(target.boxes[box], shape));
  std::map<std::int64_t, std::size_t> copies;
  for (const auto& numbers : held) {
    for (std::int64_t number : numbers) ++copies[number];
  }
  std::map<std::int64_t, std::size_t> expected;
  for (const auto& [number, count] : copies) {
    if (count > 1) expected[number] = count - 1;
  }
  ASSERT_EQ(compared, expected) << "not every copy is compared";
}

// Cuts a box in two, again and again.
std::vector<Box> RandomCuts(std::mt19937& random, const Shape& shape, std::size_t wanted) {
  std::vector<Box> boxes = {WholeBox(shape)};
  for (std::size_t tries = 0; tries < 20 * wanted && boxes.size() < wanted; ++tries) {
    Box& box = boxes[random() % boxes.size()];
    Positions& positions = box[random() % shape.size()];
    const PositionRange range = positions.front();
    if (range.end - range.begin < 2) continue;
    const std::int64_t cut = range.begin + 1 + static_cast<std::int64_t>(random()) % (range.end - range.begin - 1);
    Box second = box;
    second[static_cast<std::size_t>(&positions - box.data())] = {{cut, range.end}};
    positions = {{range.begin, cut}};
    boxes.push_back(std::move(second));
  }
  return boxes;
}

TEST(PlannerBoxesTest, RandomBoxesOnBothSides) {
  std::mt19937 random(20261126);
  for (int round = 0; round < 40; ++round) {
    const Shape shape = round % 3 == 0 ? Shape{200} : round % 3 == 1 ? Shape{14, 15} : Shape{6, 5, 7};
    std::vector<Box> boxes = RandomCuts(random, shape, 1 + random() % 70);
    const std::size_t cut = boxes.size();
    for (std::size_t copy = 0; copy < random() % 8; ++copy) {
      boxes.push_back(RandomCuts(random, shape, 5)[random() % 5]);  // Copies of what several boxes have.
    }
    const BoxedSide source = SideOf(shape, boxes);
    const BoxedSide target = SideOf(shape, RandomCuts(random, shape, 1 + random() % 70));
    SCOPED_TRACE(
        fmt::format("round {}: {} boxes and {} copies to {}", round, cut, boxes.size() - cut, target.boxes.size()));
    llvm::Expected<Plan> plan = PlanOf(source, target);
    ASSERT_TRUE(static_cast<bool>(plan)) << TakeFailure(plan.takeError()).message;
    ExpectEveryElement(*plan, source, target, shape, round % 2 == 0 ? 1000 : 3);
  }
}

TEST(PlannerBoxesTest, AHoleIsAnError) {
  std::mt19937 random(20261126);
  for (std::size_t wanted : {3U, 60U}) {
    std::vector<Box> boxes = RandomCuts(random, {14, 15}, wanted);
    const BoxedSide target = SideOf({14, 15}, boxes);
    boxes.erase(boxes.begin() + 1);
    llvm::Expected<Plan> plan = PlanOf(SideOf({14, 15}, boxes), target);
    ASSERT_FALSE(static_cast<bool>(plan));
    EXPECT_THAT(TakeFailure(plan.takeError()).message, HasSubstr("of its 210 elements"));
  }
}

TEST(PlannerBoxesTest, AMissingGeometryIsNotSound) {
  std::mt19937 random(20261126);
  const BoxedSide source = SideOf({14, 15}, RandomCuts(random, {14, 15}, 60));
  const BoxedSide target = SideOf({14, 15}, RandomCuts(random, {14, 15}, 50));
  const Plan plan = llvm::cantFail(PlanOf(source, target));
  for (std::size_t g = 0; g < plan.geometries.size(); g += 7) {
    Plan without = plan;
    without.geometries.erase(without.geometries.begin() + static_cast<std::ptrdiff_t>(g));
    llvm::Error error = VerifyPlan(without);
    ASSERT_TRUE(static_cast<bool>(error)) << g;
    EXPECT_THAT(TakeFailure(std::move(error)).message, HasSubstr("not sound"));
  }
}

// A square of so many boxes.
std::vector<Box> Grid(std::int64_t side, std::int64_t width) {
  std::vector<Box> boxes;
  for (std::int64_t row = 0; row < side; ++row) {
    for (std::int64_t column = 0; column < side; ++column) {
      boxes.push_back({{{row * width, (row + 1) * width}}, {{column * width, (column + 1) * width}}});
    }
  }
  return boxes;
}

// The same in rows.
std::vector<Box> Rows(std::int64_t count, std::int64_t columns) {
  std::vector<Box> boxes;
  for (std::int64_t row = 0; row < count; ++row) boxes.push_back({{{row, row + 1}}, {{0, columns}}});
  return boxes;
}

double SecondsToPlan(const Shape& shape, const std::vector<Box>& from, const std::vector<Box>& to) {
  const auto start = std::chrono::steady_clock::now();
  const BoxedSide source = SideOf(shape, from);
  const BoxedSide target = SideOf(shape, to);
  llvm::Expected<Plan> plan = PlanOf(source, target);
  if (!plan) {
    ADD_FAILURE() << TakeFailure(plan.takeError()).message;
    return 0;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%zu boxes to %zu: %zu geometries, described, planned and proved in %.2f s\n", from.size(), to.size(),
              plan->geometries.size(), seconds);
  return seconds;
}

// Whether the second takes less than 10 times as long as the first, in one of three tries: the machine may be busy.
bool GrowsLittle(const std::function<double()>& few, const std::function<double()>& many) {
  for (int time = 0; time < 3; ++time) {
    if (many() < 10 * few()) return true;
  }
  return false;
}

// Four times as many take 4.4 times as long at n log n, and 16 times at the square.
TEST(PlannerBoxesTest, TimeGrowsAsTheBoxesDo) {
  const std::int64_t most = std::getenv("UCP_EVERY_CELL") != nullptr ? 1000 : 240;  // The side of a square.
  EXPECT_TRUE(GrowsLittle([&] { return SecondsToPlan({most * 4, most * 4}, Grid(most / 2, 8), Grid(most / 4, 16)); },
                          [&] { return SecondsToPlan({most * 8, most * 8}, Grid(most, 8), Grid(most / 2, 16)); }));
  const auto rows = [](std::int64_t count) {
    return SecondsToPlan({count, 4}, Rows(count, 4), {WholeBox({count, 4})});
  };
  EXPECT_TRUE(GrowsLittle([&] { return rows(most * most / 4); }, [&] { return rows(most * most); }));
}

}  // namespace
}  // namespace ucp
