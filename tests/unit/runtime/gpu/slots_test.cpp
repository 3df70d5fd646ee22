// The ring of slots, and bytes that are packed into it: whatever is sent arrives, wherever it is to go.
#include "runtime/gpu/slots.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>

#include "compiler/support/parallel.h"
#include "runtime/elements/cast.h"
#include "runtime/gpu/packing.h"
#include "tests/unit/runtime/gpu/devices.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;
using testing::Must;
using testing::PutIn;
using testing::RandomBytes;
using testing::TakeOut;
using testing::TextOf;

class SlotsTest : public testing::EachDevice {};
TEST_ON_EACH_DEVICE(SlotsTest);

// Pieces of all sizes to places all over, by several threads, through fewer slots than there are transfers: a slot that
// is filled again too early brings wrong bytes.
TEST_P(SlotsTest, WhatThreadsSendArrives) {
  constexpr std::size_t kPieces = 3000;
  constexpr std::uint64_t kSlotBytes = 10000;
  std::mt19937 random(1);
  std::vector<std::size_t> begins{0};
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    begins.push_back(begins.back() + (random() % 4 == 0 ? random() % 5000 : random() % 100));
  }
  const std::vector<std::byte> content = RandomBytes(begins.back(), 2);
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), content.size()));
  const auto ring = Must(SlotRing::Make(device(), 6, kSlotBytes));
  constexpr std::size_t kAtOnce = 20;
  ASSERT_SUCCESS(ForEachInParallel(kPieces / kAtOnce, {4, nullptr}, [&](unsigned, std::uint64_t group) -> llvm::Error {
    std::optional<SlotTransfer> transfer;
    for (std::size_t piece = group * kAtOnce; piece < (group + 1) * kAtOnce; ++piece) {
      const Numbers plain{.count = begins[piece + 1] - begins[piece]};
      if (transfer && !transfer->Fits(plain, 1)) {
        if (llvm::Error error = transfer->Send()) return error;
        transfer.reset();
      }
      if (!transfer) {
        llvm::Expected<SlotTransfer> next = ring->Begin();
        if (!next) return next.takeError();
        transfer.emplace(std::move(*next));
      }
      const std::array places = {memory.bytes().data() + begins[piece]};
      const std::span<std::byte> slot = transfer->Add(plain, places);
      std::memcpy(slot.data(), content.data() + begins[piece], slot.size());
    }
    return transfer->Send();
  }));
  ASSERT_SUCCESS(ring->Wait());
  EXPECT_TRUE(TakeOut(device(), memory.bytes()) == content);
  EXPECT_LT(ring->counts().transfers, kPieces / 4);
  EXPECT_LE(ring->counts().launches, ring->counts().transfers);
}

// Shuffled, in more moves than a list of one slot has; the bytes themselves do not cross the bus again.
TEST_P(SlotsTest, BytesOfTheDeviceAreMoved) {
  constexpr std::size_t kPieces = 3000;
  constexpr std::uint64_t kSlotBytes = 10000;
  std::mt19937 random(4);
  std::vector<std::uint64_t> begins{0};
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    begins.push_back(begins.back() + (random() % 50 == 0 ? random() % 40000 : random() % 100));
  }
  std::vector<std::size_t> order(kPieces);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  const std::vector<std::byte> content = RandomBytes(begins.back(), 5);
  const DeviceMemory buffer = Must(DeviceMemory::Make(device(), content.size()));
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), content.size()));
  PutIn(device(), buffer.bytes(), content);
  const auto ring = Must(SlotRing::Make(device(), 3, kSlotBytes));
  std::vector<BytesInBuffer> moves;
  std::vector<std::byte> expected(content.size());
  std::uint64_t to = 0;
  for (std::size_t piece : order) {
    const std::uint64_t bytes = begins[piece + 1] - begins[piece];
    moves.push_back({begins[piece], memory.bytes().subspan(to, bytes)});
    std::memcpy(expected.data() + to, content.data() + begins[piece], bytes);
    to += bytes;
  }
  ASSERT_SUCCESS(ring->Move(moves, buffer.bytes().data()));
  ASSERT_SUCCESS(ring->Wait());
  EXPECT_TRUE(TakeOut(device(), memory.bytes()) == expected);
  EXPECT_GT(ring->counts().launches, 5U);
  EXPECT_LT(ring->counts().bytes, content.size() / 4);
}

TEST_P(SlotsTest, OneStretchGoesToItsPlaceWithoutALaunch) {
  const std::vector<std::byte> content = RandomBytes(1 << 20, 3);
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), content.size()));
  const auto ring = Must(SlotRing::Make(device(), 3, SlotRing::kMostSlotBytes));
  SlotTransfer transfer = Must(ring->Begin());
  constexpr std::size_t kPart = std::size_t{1} << 18;
  for (std::size_t begin = 0; begin < content.size(); begin += kPart) {
    const std::array places = {memory.bytes().data() + begin};
    std::memcpy(transfer.Add({.count = kPart}, places).data(), content.data() + begin, kPart);
  }
  ASSERT_SUCCESS(transfer.Send());
  ASSERT_SUCCESS(ring->Wait());
  EXPECT_TRUE(TakeOut(device(), memory.bytes()) == content);
  EXPECT_EQ(ring->counts().bytes, content.size());
  EXPECT_EQ(ring->counts().transfers, 1U);
  EXPECT_EQ(ring->counts().launches, 0U);
}

TEST_P(SlotsTest, NumbersAreCastOnTheWayAndGoToAllTheirPlaces) {
  constexpr std::size_t kCount = 30001;
  std::vector<std::byte> content = RandomBytes(kCount * 2, 4);
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), kCount * 8 + 1000));
  const auto ring = Must(SlotRing::Make(device(), 2, std::uint64_t{1} << 18));
  SlotTransfer transfer = Must(ring->Begin());
  const std::array places = {memory.bytes().data(), memory.bytes().data() + kCount * 4};
  const Numbers numbers{kUcpBFloat16, kUcpFloat32, kCount};
  const std::span<std::byte> slot = transfer.Add(numbers, places);
  ASSERT_EQ(slot.size(), content.size());
  std::memcpy(slot.data(), content.data(), content.size());
  ASSERT_SUCCESS(transfer.Send());
  ASSERT_SUCCESS(ring->Wait());
  content.resize(kCount * 4);
  Cast(content, kCount, DType::kBFloat16, DType::kFloat32);
  EXPECT_TRUE(TakeOut(device(), memory.bytes().first(kCount * 4)) == content);
  EXPECT_TRUE(TakeOut(device(), memory.bytes().subspan(kCount * 4, kCount * 4)) == content);
  EXPECT_LT(ring->counts().bytes, kCount * 2 + 10000);  // Once over the bus, and as they were stored.
}

// Twenty thousand tensors are not twenty thousand transfers.
TEST_P(SlotsTest, SmallBytesAreSentTogether) {
  constexpr std::size_t kTensors = 20000;
  constexpr std::size_t kBytes = 132;
  const std::vector<std::byte> content = RandomBytes(kTensors * kBytes, 5);
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), kTensors * kBytes * 2));
  const auto ring = Must(SlotRing::Make(device(), 3, SlotRing::kMostSlotBytes));
  Packing packing(*ring);
  packing.Zero(memory.bytes());
  ASSERT_SUCCESS(packing.Finish());
  for (std::size_t i = 0; i < kTensors; ++i) {
    packing.Put(memory.bytes().data() + i * 2 * kBytes, std::span(content).subspan(i * kBytes, kBytes));
  }
  ASSERT_SUCCESS(packing.Finish());
  EXPECT_LE(ring->counts().transfers, 2U);
  EXPECT_LE(ring->counts().launches, 3U);
  const std::vector<std::byte> arrived = TakeOut(device(), memory.bytes());
  for (std::size_t i = 0; i < kTensors; ++i) {
    ASSERT_EQ(std::memcmp(arrived.data() + i * 2 * kBytes, content.data() + i * kBytes, kBytes), 0) << i;
    ASSERT_EQ(arrived[(i * 2 + 1) * kBytes], std::byte{0}) << i;
  }
}

TEST_P(SlotsTest, WhatIsLargerThanASlotAndWhatIsZero) {
  const std::vector<std::byte> content = RandomBytes(500001, 6);
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), 600000));
  const auto ring = Must(SlotRing::Make(device(), 2, SlotRing::kLeastSlotBytes));
  Packing packing(*ring);
  packing.Put(memory.bytes().data(), content);
  packing.Zero(memory.bytes().subspan(500001, 9));
  packing.Zero(memory.bytes().subspan(500010));
  ASSERT_SUCCESS(packing.Finish());
  std::vector<std::byte> expected = content;
  expected.resize(600000, std::byte{0});
  EXPECT_TRUE(TakeOut(device(), memory.bytes()) == expected);
}

TEST_P(SlotsTest, AShipmentThatIsGivenUpTakesNothing) {
  const DeviceMemory memory = Must(DeviceMemory::Make(device(), 64));
  const auto ring = Must(SlotRing::Make(device(), 1, SlotRing::kLeastSlotBytes));
  {
    SlotTransfer transfer = Must(ring->Begin());
    const std::array places = {memory.bytes().data()};
    transfer.Add({.count = 64}, places);
  }
  Must(ring->Begin());  // There is but one slot.
  EXPECT_EQ(ring->counts().transfers, 0U);
}

TEST(SlotRoomTest, SaysHowMuchFits) {
  for (std::uint64_t slot : {SlotRing::kLeastSlotBytes, std::uint64_t{100000}, SlotRing::kMostSlotBytes}) {
    const std::uint64_t most = SlotRoom::MostBytes(slot);
    EXPECT_TRUE(SlotRoom(slot).Fits({.count = most}, 1));
    EXPECT_GT(most, slot - slot / 100 - 100);
  }
  EXPECT_GE(SlotRoom::MostBytes(SlotRing::kMostSlotBytes), std::uint64_t{2} << 20);
}

// Every call of the device fails once; nothing is left behind, and the error says which it was.
TEST(SlotsFailureTest, AFailingCallIsAnErrorAndLeavesNothing) {
  for (std::uint64_t fail_at = 1;; ++fail_at) {
    SetHostDevice({.delay = std::chrono::microseconds(20), .fail_at = fail_at});
    const std::int64_t before = CountsOfHostDevice().not_given_back;
    const Device device(HostDeviceCalls(), 0);
    auto work = [&]() -> llvm::Error {
      llvm::Expected<DeviceMemory> memory = DeviceMemory::Make(device, 400000);
      if (!memory) return memory.takeError();
      llvm::Expected<std::unique_ptr<SlotRing>> ring = SlotRing::Make(device, 3, SlotRing::kLeastSlotBytes);
      if (!ring) return ring.takeError();
      Packing packing(**ring);
      packing.Zero(memory->bytes());
      if (llvm::Error error = packing.Finish()) return error;
      packing.Put(memory->bytes().data(), RandomBytes(300000, 7));
      packing.Put(memory->bytes().data() + 350000, RandomBytes(100, 7));
      return packing.Finish();
    };
    const std::string text = TextOf(work());
    ASSERT_EQ(CountsOfHostDevice().not_given_back, before) << fail_at;
    if (text.empty()) {
      EXPECT_GT(fail_at, 30U);
      break;
    }
    EXPECT_THAT(text, HasSubstr("told to fail")) << fail_at;
  }
}

}  // namespace
}  // namespace ucp
