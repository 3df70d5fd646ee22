// The promises of every device (device.h).
#include "runtime/gpu/device.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "runtime/elements/cast.h"
#include "tests/unit/runtime/gpu/devices.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;
using testing::Must;
using testing::PutIn;
using testing::RandomBytes;
using ::testing::StartsWith;
using testing::TakeOut;
using testing::TextOf;

class DeviceTest : public testing::EachDevice {};
TEST_ON_EACH_DEVICE(DeviceTest);

TEST_P(DeviceTest, SaysWhatItIs) {
  const DeviceFacts facts = Must(device().Facts());
  EXPECT_NE(facts.model, "");
  EXPECT_GT(facts.free_bytes, 0U);
  EXPECT_LE(facts.free_bytes, facts.memory_bytes);
  EXPECT_THAT(device().name(), StartsWith("cuda:"));
}

TEST_P(DeviceTest, BytesComeAndGoAsTheyAre) {
  for (std::size_t bytes : {1UL, 7UL, 4096UL, 1000003UL}) {
    const DeviceMemory memory = Must(DeviceMemory::Make(device(), bytes + 5));
    const std::vector<std::byte> content = RandomBytes(bytes, 1);
    PutIn(device(), memory.bytes().subspan(3, bytes), content);
    EXPECT_EQ(TakeOut(device(), memory.bytes().subspan(3, bytes)), content);
  }
}

TEST_P(DeviceTest, MoreMemoryThanThereIsIsRefused) {
  const DeviceFacts facts = Must(device().Facts());
  const std::string text = TextOf(DeviceMemory::Make(device(), facts.memory_bytes + (1 << 20)).takeError());
  EXPECT_THAT(text, StartsWith(device().name() + ": "));
  EXPECT_THAT(text, HasSubstr("out of memory"));
  Must(DeviceMemory::Make(device(), 1 << 20));  // A refused request leaves no trace.
}

TEST_P(DeviceTest, AStreamKeepsTheOrder) {
  constexpr std::size_t kBytes = 100000;
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), kBytes));
  const PinnedMemory pinned = Must(PinnedMemory::Make(device(), 2 * kBytes));
  const std::vector<std::byte> content = RandomBytes(kBytes, 2);
  std::copy(content.begin(), content.end(), pinned.bytes().begin());
  const DeviceEvent done = Must(DeviceEvent::Make(device()));
  DeviceStream stream = Must(DeviceStream::Make(device()));
  ASSERT_SUCCESS(stream.Fill(memory.bytes(), std::byte{0x11}));
  ASSERT_SUCCESS(stream.CopyIn(memory.bytes().data() + 100, pinned.bytes().first(kBytes - 200)));
  ASSERT_SUCCESS(stream.Fill(memory.bytes().subspan(50, 100), std::byte{0x22}));
  ASSERT_SUCCESS(stream.CopyOut(pinned.bytes().subspan(kBytes), memory.bytes().data()));
  ASSERT_SUCCESS(stream.Record(done));
  ASSERT_SUCCESS(done.Wait());
  std::vector<std::byte> expected(kBytes, std::byte{0x11});
  std::copy(content.begin(), content.end() - 200, expected.begin() + 100);
  std::fill(expected.begin() + 50, expected.begin() + 150, std::byte{0x22});
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), pinned.bytes().begin() + kBytes));
}

TEST_P(DeviceTest, AnEventPassesWhenAllBeforeItIsDone) {
  constexpr std::size_t kBytes = 1 << 20;
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), kBytes));
  const PinnedMemory pinned = Must(PinnedMemory::Make(device(), kBytes));
  DeviceStream stream = Must(DeviceStream::Make(device()));
  const DeviceEvent event = Must(DeviceEvent::Make(device()));
  EXPECT_TRUE(Must(event.HasPassed()));  // It was never recorded.
  ASSERT_SUCCESS(event.Wait());
  for (int round = 0; round < 5; ++round) {
    const auto value = static_cast<std::byte>(round);
    ASSERT_SUCCESS(stream.Fill(memory.bytes(), value));
    ASSERT_SUCCESS(stream.CopyOut(pinned.bytes(), memory.bytes().data()));
    ASSERT_SUCCESS(stream.Record(event));
    if (round % 2 == 0) {
      ASSERT_SUCCESS(event.Wait());
    } else {
      while (!Must(event.HasPassed())) std::this_thread::yield();
    }
    EXPECT_EQ(pinned.bytes().back(), value);
    EXPECT_TRUE(Must(event.HasPassed()));
  }
}

TEST_P(DeviceTest, StreamsOfSeveralThreads) {
  constexpr std::size_t kBytes = 300000;
  constexpr unsigned kThreads = 4;
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), kBytes * kThreads));
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back(
        [&, thread] { PutIn(device(), memory.bytes().subspan(thread * kBytes, kBytes), RandomBytes(kBytes, thread)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    EXPECT_EQ(TakeOut(device(), memory.bytes().subspan(thread * kBytes, kBytes)), RandomBytes(kBytes, thread));
  }
}

// One launch: the moves, then what they are out of; and what of `memory` comes of it.
std::vector<std::byte> AfterMoves(const Device& device, std::vector<UcpMove> moves, std::span<const std::byte> buffer,
                                  std::uint64_t target_bytes) {
  const std::uint64_t list_bytes = moves.size() * sizeof(UcpMove);
  const DeviceMemory list = Must(DeviceMemory::Make(device, list_bytes));
  const DeviceMemory source = Must(DeviceMemory::Make(device, buffer.size()));
  const DeviceMemory target = Must(DeviceMemory::Make(device, target_bytes));
  for (UcpMove& move : moves) move.to += reinterpret_cast<std::uintptr_t>(target.bytes().data());
  PutIn(device, list.bytes(), std::as_bytes(std::span(moves)));
  PutIn(device, source.bytes(), buffer);
  PutIn(device, target.bytes(), std::vector<std::byte>(target_bytes, std::byte{0x5A}));
  DeviceStream stream = Must(DeviceStream::Make(device));
  const DeviceEvent done = Must(DeviceEvent::Make(device));
  llvm::cantFail(stream.Move(list.bytes().data(), static_cast<std::uint32_t>(moves.size()), source.bytes().data()));
  llvm::cantFail(stream.Record(done));
  EXPECT_EQ(TextOf(done.Wait()), "");
  return TakeOut(device, target.bytes());
}

TEST_P(DeviceTest, ManySmallPiecesAreMovedAtOnce) {
  constexpr std::uint32_t kMoves = 20000;
  const std::vector<std::byte> buffer = RandomBytes(std::size_t{kMoves} * 64, 3);
  std::mt19937 random(4);
  std::vector<UcpMove> moves;
  std::vector<std::byte> expected(buffer.size() + kMoves * 17, std::byte{0x5A});
  std::uint64_t to = 0;
  for (std::uint32_t i = 0; i < kMoves; ++i) {  // To places and from places of any alignment, in any order.
    to += random() % 17;
    const std::uint32_t from = (i * 7919 % kMoves) * 64 + random() % 16;
    const std::uint64_t bytes = random() % 49;
    moves.push_back({to, bytes, from, kUcpBytes, kUcpBytes});
    std::memcpy(expected.data() + to, buffer.data() + from, bytes);
    to += bytes;
  }
  std::shuffle(moves.begin(), moves.end(), random);
  EXPECT_TRUE(AfterMoves(device(), moves, buffer, expected.size()) == expected);
}

TEST_P(DeviceTest, LongPiecesOfEveryAlignment) {
  const std::vector<std::byte> buffer = RandomBytes(100000, 5);
  for (std::uint32_t from : {0U, 1U, 2U, 4U, 8U, 16U}) {
    for (std::uint64_t to : {0U, 1U, 2U, 4U, 8U, 16U}) {
      const std::uint64_t bytes = 99968 + from % 3;
      std::vector<std::byte> expected(100020, std::byte{0x5A});
      std::memcpy(expected.data() + to, buffer.data() + from, bytes);
      ASSERT_TRUE(AfterMoves(device(), {{to, bytes, from, kUcpBytes, kUcpBytes}}, buffer, 100020) == expected)
          << from << " to " << to;
    }
  }
}

struct NumberOfDType {
  UcpNumber number;
  DType dtype;
};
constexpr NumberOfDType kNumbers[] = {{kUcpFloat64, DType::kFloat64},
                                      {kUcpFloat32, DType::kFloat32},
                                      {kUcpBFloat16, DType::kBFloat16},
                                      {kUcpFloat16, DType::kFloat16}};

// All numbers of 16 bits; of longer ones those, widened and next to what rounding decides, and random bits.
std::vector<std::byte> NumbersToCast(DType dtype) {
  std::vector<std::byte> numbers;
  auto add = [&](auto number) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    numbers.insert(numbers.end(), bytes.begin(), bytes.end());
  };
  std::mt19937_64 random(6);
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (std::uint32_t low : {0x0000U, 0x0001U, 0x1000U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      if (ItemBytes(dtype) == 4) add(high << 16 | low);
      if (ItemBytes(dtype) == 8) add(double{std::bit_cast<float>(high << 16 | low)});
    }
    if (ItemBytes(dtype) == 2) add(static_cast<std::uint16_t>(high));
    if (ItemBytes(dtype) == 8) add(random());
    if (ItemBytes(dtype) == 4) add(static_cast<std::uint32_t>(random()));
  }
  return numbers;
}

TEST_P(DeviceTest, CastsAreThoseOfTheHostToTheBit) {
  for (const NumberOfDType& from : kNumbers) {
    const std::vector<std::byte> numbers = NumbersToCast(from.dtype);
    const auto count = static_cast<std::int64_t>(numbers.size()) / ItemBytes(from.dtype);
    for (const NumberOfDType& to : kNumbers) {
      if (from.dtype == to.dtype) continue;
      const auto bytes = static_cast<std::size_t>(count * ItemBytes(to.dtype));
      std::vector<std::byte> expected(std::max(numbers.size(), bytes));
      std::copy(numbers.begin(), numbers.end(), expected.begin());
      Cast(expected, count, from.dtype, to.dtype);
      expected.resize(bytes);
      const UcpMove move{0, static_cast<std::uint64_t>(count), 0, static_cast<std::uint16_t>(from.number),
                         static_cast<std::uint16_t>(to.number)};
      EXPECT_TRUE(AfterMoves(device(), {move}, numbers, bytes) == expected)
          << Name(from.dtype) << " to " << Name(to.dtype);
    }
  }
}

}  // namespace
}  // namespace ucp
