// Rows of every size and distance from a device's memory to the host's, compared with one copy of each byte.
#include "runtime/gpu/unload.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/unit/runtime/gpu/devices.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;
using testing::Must;
using testing::PutIn;
using testing::RandomBytes;
using testing::TextOf;

constexpr auto kUntouched = std::byte{0x77};

class UnloadTest : public testing::EachDevice {
 protected:
  // The device, for objects that share it.
  std::shared_ptr<const Device> Shared() { return {std::shared_ptr<void>(), &device()}; }
};
TEST_ON_EACH_DEVICE(UnloadTest);

// Pages of their own, as a segment has: memory is pinned by pages.
struct HostPages {
  explicit HostPages(std::size_t bytes)
      : memory(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))), size(bytes) {
    std::fill_n(memory.get(), size, kUntouched);
  }
  std::span<std::byte> bytes() const { return {memory.get(), size}; }
  struct Free {
    void operator()(std::byte* freed) const { std::free(freed); }
  };
  std::unique_ptr<std::byte, Free> memory;
  std::size_t size;
};

// Rows on the device, by their beginning there, one family after the other in the host's memory, with gaps of `gap`.
struct Families {
  std::vector<DeviceRows> rows;
  std::uint64_t bytes_on_device = 0;
  std::uint64_t bytes_on_host = 0;

  void Add(std::uint64_t row_bytes, std::uint64_t count, std::int64_t stride, std::uint64_t gap) {
    bytes_on_host += gap;
    rows.push_back({.row_bytes = row_bytes, .rows = count, .stride = stride, .to = bytes_on_host});
    bytes_on_host += row_bytes * count;
    bytes_on_device = std::max(bytes_on_device, static_cast<std::uint64_t>(stride) * (count - 1) + row_bytes);
  }
};

// Where a byte has no meaning afterwards, it is what `found` has.
std::vector<std::byte> Expected(const Families& families, const std::vector<std::uint64_t>& begins,
                                std::span<const std::byte> on_device, std::span<const std::byte> found) {
  std::vector<std::byte> expected(found.size(), kUntouched);
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < families.rows.size(); ++i) {
    const DeviceRows& rows = families.rows[i];
    if (rows.to - end < Unloader::kMostGap) std::memcpy(expected.data() + end, found.data() + end, rows.to - end);
    std::uint64_t at = rows.to;
    for (std::uint64_t row = 0; row < rows.rows; ++row) {
      for (std::uint64_t byte = 0; byte < rows.row_bytes; ++byte) {
        expected[at++] = on_device[begins[i] + row * static_cast<std::uint64_t>(rows.stride) + byte];
      }
    }
    end = at;
  }
  return expected;
}

TEST_P(UnloadTest, RowsOfEverySizeAndDistance) {
  std::mt19937 random(1);
  Families families;
  for (int i = 0; i < 3000; ++i) {  // As a job's small tensors are, and parts of tensors cut across.
    const std::uint64_t unit = std::uint64_t{1} << random() % 5;
    const std::uint64_t row_bytes = unit * (1 + random() % 40);
    const std::uint64_t gap = random() % 10 == 0 ? 64 + random() % 100 : random() % 2 * (random() % 64);
    families.Add(row_bytes, 1 + random() % 50, static_cast<std::int64_t>(row_bytes + unit * (random() % 3)), gap);
  }
  families.Add(1, 200000, 3, 0);            // Single bytes.
  families.Add(100000, 30, 100016, 10);     // Rows longer than a piece.
  families.Add(3 << 20, 1, 0, 0);           // A run.
  families.Add((34 << 20) + 5, 1, 0, 7);    // Longer than a lane.
  families.Add(2 << 20, 2, 2 << 20, 1000);  // Rows that are one run.
  families.Add(40, 1, 0, 0);
  const std::vector<std::byte> content = RandomBytes(families.bytes_on_device + 4096, 2);
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), content.size()));
  PutIn(device(), memory.bytes(), content);
  std::vector<std::uint64_t> begins;
  std::vector<DeviceRows> rows = families.rows;
  for (DeviceRows& each : rows) {
    const std::uint64_t extent = static_cast<std::uint64_t>(each.stride) * (each.rows - 1) + each.row_bytes;
    begins.push_back(random() % (content.size() - extent + 1));
    each.from = memory.bytes().data() + begins.back();
  }
  std::shuffle(rows.begin(), rows.end(), random);
  const HostPages host(families.bytes_on_host + 10000);
  for (const bool pins : {true, false}) {
    const auto unloader = Must(Unloader::Make(Shared(), host.bytes(), {pins, 2}));
    for (int time = 0; time < 2; ++time) {  // Again, through the same memory.
      std::fill(host.bytes().begin(), host.bytes().end(), kUntouched);
      ASSERT_SUCCESS(unloader->Unload(rows));
      EXPECT_TRUE(Expected(families, begins, content, host.bytes()) ==
                  std::vector<std::byte>(host.bytes().begin(), host.bytes().end()))
          << pins << " " << time;
    }
    EXPECT_LT(unloader->counts().launches, 800U);  // The large gaps, about 300, and the rest, twice.
  }
}

TEST_P(UnloadTest, ManySmallTensorsLeaveInOneTransfer) {
  Families families;
  for (int i = 0; i < 5000; ++i) families.Add(64, 1, 0, 0);
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), 5000 * 64));
  const std::vector<std::byte> content = RandomBytes(5000 * 64, 3);
  PutIn(device(), memory.bytes(), content);
  for (DeviceRows& each : families.rows) each.from = memory.bytes().data() + each.to;
  const HostPages host(content.size());
  const auto unloader = Must(Unloader::Make(Shared(), host.bytes()));
  ASSERT_SUCCESS(unloader->Unload(families.rows));
  EXPECT_EQ(unloader->counts().transfers, 1U);
  EXPECT_EQ(unloader->counts().launches, 1U);
  EXPECT_TRUE(std::equal(content.begin(), content.end(), host.bytes().begin()));
}

TEST_P(UnloadTest, ASharedBusIsLeftAloneForTheRestOfTheTime) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), kBytes));
  const HostPages host(kBytes);
  const auto unloader = Must(Unloader::Make(Shared(), host.bytes()));
  const std::vector<DeviceRows> rows{{.from = memory.bytes().data(), .row_bytes = kBytes}};
  ASSERT_SUCCESS(unloader->Unload(rows));
  EXPECT_EQ(unloader->counts().rested.count(), 0);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_SUCCESS(unloader->Unload(rows, 0.25));
  const UnloadCounts counts = unloader->counts();
  EXPECT_GT(counts.used.count(), 0);
  EXPECT_DOUBLE_EQ(counts.rested.count(), 3 * counts.used.count());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, counts.rested);
}

TEST_P(UnloadTest, NothingToDo) {
  const HostPages host(4096);
  const auto unloader = Must(Unloader::Make(Shared(), host.bytes()));
  ASSERT_SUCCESS(unloader->Unload({}));
  ASSERT_SUCCESS(unloader->Unload({{.rows = 3}}));
  EXPECT_EQ(host.bytes()[0], kUntouched);
}

// Each call of the device fails once: that is reported, and nothing is kept.
void EachCallFailsOnce(const UnloadOptions& options) {
  std::uint64_t failures = 0;
  for (std::uint64_t fail_at = 1;; ++fail_at) {
    SetHostDevice({.fail_at = fail_at});
    const std::int64_t kept = CountsOfHostDevice().not_given_back;
    std::string text;
    {
      const auto device = std::make_shared<const Device>(HostDeviceCalls(), 0);
      const HostPages host(3 << 20);
      auto run = [&]() -> llvm::Error {
        llvm::Expected<DeviceMemory> memory = DeviceMemory::Make(*device, 3 << 20);
        if (!memory) return memory.takeError();
        auto unloader = Unloader::Make(device, host.bytes(), options);
        if (!unloader) return unloader.takeError();
        const std::byte* from = memory->bytes().data();
        return (*unloader)->Unload({{from, 2 << 20, 1, 0, 0}, {from, 100, 20, 200, 2 << 20}});
      };
      text = TextOf(run());
    }
    EXPECT_EQ(CountsOfHostDevice().not_given_back, kept);
    if (text.empty()) break;
    EXPECT_THAT(text, HasSubstr("told to fail"));
    ++failures;
  }
  EXPECT_GT(failures, 15U);
}

TEST(UnloadFailureTest, EachCallFailsOnceStraight) { EachCallFailsOnce({.pins_host = true}); }

TEST(UnloadFailureTest, EachCallFailsOnceByWayOfOtherMemory) { EachCallFailsOnce({.pins_host = false}); }

}  // namespace
}  // namespace ucp
