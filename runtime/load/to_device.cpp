// The pieces that share a slot are settled before, so that slots are filled and sent in the order of the model,
// whichever thread does it.
#include "runtime/load/to_device.h"

#include <algorithm>

#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

// Two slots for each thread, since it fills one while its other one is on the way, and two for packed tensors.
std::size_t SlotsFor(unsigned threads) { return 2 * std::size_t{threads} + 2; }

UcpNumber NumberOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return kUcpFloat64;
    case DType::kFloat32:
      return kUcpFloat32;
    case DType::kBFloat16:
      return kUcpBFloat16;
    case DType::kFloat16:
      return kUcpFloat16;
    default:
      return kUcpBytes;
  }
}

// The contents of a slot, and how they get there.
struct Freight {
  TargetRange range;  // As it is read: in the dtype that crosses the bus.
  Numbers numbers;
  std::vector<std::byte*> places;
};

bool AreAligned(const std::vector<std::byte*>& places, std::int64_t bytes) {
  return std::all_of(places.begin(), places.end(), [&](const std::byte* place) {
    return reinterpret_cast<std::uintptr_t>(place) % static_cast<std::uint64_t>(bytes) == 0;
  });
}

Freight FreightOf(const Places& places, const Content& content, const Piece& piece) {
  Freight freight{RangeOf(content, piece), {}, {}};
  TargetRange& range = freight.range;
  freight.places.push_back(places.Of(range).data());
  for (const CopyInMemory& copy : content.copies) {
    const std::int64_t element = copy.record_element + piece.begin - content.range.begin;
    freight.places.push_back(places.Of(copy.record).data() + element * ItemBytes(range.dtype));
  }
  const auto count = static_cast<std::uint64_t>(range.end - range.begin);
  const UcpNumber stored = NumberOf(range.source_dtype);
  const UcpNumber wanted = NumberOf(range.dtype);
  if (range.offset == 0 && stored != wanted && stored != kUcpBytes && wanted != kUcpBytes &&
      NumberBytes(stored) <= NumberBytes(wanted) && AreAligned(freight.places, ItemBytes(range.dtype))) {
    freight.numbers = {stored, wanted, count};
    range.dtype = range.source_dtype;
  } else {
    freight.numbers.count = count * static_cast<std::uint64_t>(ItemBytes(range.dtype));
  }
  return freight;
}

// Where the pieces of each slot begin, and the end of the last.
std::vector<std::size_t> SlotsOf(const Places& places, const std::vector<Content>& contents,
                                 const std::vector<Piece>& pieces, std::uint64_t slot_bytes) {
  std::vector<std::size_t> begins{0};
  SlotRoom room(slot_bytes);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Freight freight = FreightOf(places, contents[pieces[i].content], pieces[i]);
    if (!room.Fits(freight.numbers, freight.places.size())) {
      begins.push_back(i);
      room = SlotRoom(slot_bytes);
    }
    room.Add(freight.numbers, freight.places.size());
  }
  begins.push_back(pieces.size());
  return begins;
}

std::size_t MostPlaces(const std::vector<Content>& contents) {
  std::size_t most = 1;
  for (const Content& content : contents) most = std::max(most, content.copies.size() + 1);
  return most;
}

}  // namespace

std::uint64_t DeviceRings::LeastMemory(unsigned threads, std::size_t devices) {
  return devices * SlotsFor(threads) * SlotRing::kLeastSlotBytes;
}

llvm::Expected<DeviceRings> DeviceRings::Make(Places& places, unsigned threads, std::uint64_t host_bytes,
                                              std::uint64_t device_bytes, bool leaves_half) {
  DeviceRings rings;
  const std::vector<const Device*> devices = places.Devices();
  const std::size_t slots = SlotsFor(threads);
  const std::uint64_t least = slots * SlotRing::kLeastSlotBytes;
  if (!devices.empty() && device_bytes < least) {
    return Fail(ErrorCode::kUsage,
                "{} of the device's memory is too little with {} {}: it takes {} ({} bytes); raise {} or "
                "lower {}",
                HumanBytes(device_bytes), threads, threads == 1 ? "thread" : "threads", HumanBytes(least), least,
                OptionName(UserOption::kDeviceMemory), OptionName(UserOption::kThreads));
  }
  const std::uint64_t most_of_device = leaves_half ? std::max(device_bytes / 2, least) : device_bytes;
  for (const Device* device : devices) {
    const std::uint64_t most = std::min(host_bytes / devices.size(), most_of_device) / slots;
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t slot_bytes = std::min(most / kPage * kPage, SlotRing::kMostSlotBytes);
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<SlotRing> ring, SlotRing::Make(*device, slots, slot_bytes));
    rings.host_bytes_ += slots * slot_bytes;
    rings.left_device_bytes_ = device_bytes - slots * slot_bytes;
    rings.packings_.push_back(std::make_unique<Packing>(*ring));
    rings.rings_.push_back(std::move(ring));
    places.ReachBy(*device, *rings.packings_.back());
  }
  return rings;
}

llvm::Expected<std::span<std::byte>> DeviceRings::Allocate(const SlotRing& ring, std::uint64_t bytes) {
  UCP_ASSIGN_OR_RETURN(memory_.emplace_back(), DeviceMemory::Make(ring.device(), bytes));
  return memory_.back().bytes();
}

SlotCounts DeviceRings::counts() const {
  SlotCounts all;
  for (const std::unique_ptr<SlotRing>& ring : rings_) {
    const SlotCounts counts = ring->counts();
    all.bytes += counts.bytes;
    all.transfers += counts.transfers;
    all.launches += counts.launches;
  }
  return all;
}

std::vector<Content> ContentsOn(const Device* device, const Places& places, const std::vector<Content>& contents) {
  std::vector<Content> there;
  for (const Content& content : contents) {
    bool is_new = true;
    auto add = [&](RecordId record, std::int64_t element) {
      if (places.DeviceOf(record) != device) return;
      if (is_new || there.back().copies.size() + 1 == SlotRoom::kMostPlaces) {
        Content part{content.range, {}};
        part.range.record = record;
        part.range.record_element = element;
        there.push_back(std::move(part));
        is_new = false;
      } else {
        there.back().copies.push_back({record, element});
      }
    };
    add(content.range.record, content.range.record_element);
    for (const CopyInMemory& copy : content.copies) add(copy.record, copy.record_element);
  }
  return there;
}

llvm::Error ReadToDevice(const Plan& plan, const Places& places, const std::vector<Content>& contents, SlotRing& ring,
                         std::uint64_t chunk_bytes, const ParallelOptions& parallel, ReadRange read) {
  const std::uint64_t most = SlotRoom::MostBytes(ring.slot_bytes(), MostPlaces(contents));
  const std::vector<Piece> pieces = CutIntoPieces(plan, contents, std::min(chunk_bytes, most));
  if (pieces.empty()) return llvm::Error::success();
  const std::vector<std::size_t> begins = SlotsOf(places, contents, pieces, ring.slot_bytes());
  auto fill = [&](unsigned thread, std::uint64_t slot) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(SlotTransfer transfer, ring.Begin());
    for (std::size_t i = begins[slot]; i < begins[slot + 1]; ++i) {
      const Freight freight = FreightOf(places, contents[pieces[i].content], pieces[i]);
      const std::uint64_t wanted_bytes = freight.numbers.count * NumberBytes(freight.numbers.wanted);
      UCP_RETURN_IF_ERROR(read(thread, freight.range, transfer.Add(freight.numbers, freight.places), wanted_bytes));
    }
    return transfer.Send();
  };
  UCP_RETURN_IF_ERROR(ForEachInParallel(begins.size() - 1, parallel, fill));
  return ring.Wait();
}

}  // namespace ucp
