// There are two lanes, each with a stream and memory of the device: while the contents of one cross the bus, those of
// the other are gathered. A lane's memory is a list of gathers, and behind it the bytes that they put together. These
// lie there as they will in the host's memory, so one transfer takes all of them.
#include "runtime/gpu/unload.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"

namespace ucp {
namespace {

constexpr std::uint64_t kLaneBytes = std::uint64_t{16} << 20;   // At most, of one transfer.
constexpr std::uint64_t kLeastRun = std::uint64_t{1} << 20;     // Shorter ones are gathered.
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 10;  // Of one gather, which one block of threads does.
constexpr std::uint64_t kCopyBytes = std::uint64_t{1} << 20;    // By one thread.
constexpr std::size_t kMostGathers = 8192;                      // Of one launch.
constexpr std::uint64_t kListBytes = kMostGathers * sizeof(UcpGather);
constexpr std::uint64_t kBufferAlignment = 64;
static_assert(kListBytes % kBufferAlignment == 0);

std::uint64_t DownToAlignment(std::uint64_t bytes) { return bytes / kBufferAlignment * kBufferAlignment; }

llvm::Error FirstOf(llvm::Error first, llvm::Error second) {
  if (!first) return second;
  llvm::consumeError(std::move(second));
  return first;
}

}  // namespace

struct Unloader::Lane {
  DeviceMemory memory;
  PinnedMemory list;
  PinnedMemory bounce;  // Where the host's memory is not pinned.
  DeviceEvent done;
  DeviceStream stream;      // Behind what it works on: it ends first.
  std::size_t gathers = 0;  // That wait to be sent.
  std::uint64_t begin = 0;  // Of their bytes in the host's memory.
  std::uint64_t end = 0;
  std::uint64_t arriving = 0;  // Bytes that come to `bounce`, to go to `arriving_at` from there.
  std::uint64_t arriving_at = 0;
};

struct Unloader::Parts {
  Pin pin;
  std::array<Lane, 2> lanes;
  std::size_t current = 0;
};

Unloader::Unloader(std::shared_ptr<const Device> device, std::span<std::byte> host, const UnloadOptions& options)
    : device_(std::move(device)), host_(host), options_(options) {}

llvm::Expected<std::unique_ptr<Unloader>> Unloader::Make(std::shared_ptr<const Device> device,
                                                         std::span<std::byte> host, const UnloadOptions& options) {
  std::unique_ptr<Unloader> unloader(new Unloader(std::move(device), host, options));
  UCP_RETURN_IF_ERROR(unloader->MakeParts());
  return unloader;
}

llvm::Error Unloader::MakeParts() {
  parts_ = std::make_unique<Parts>();
  if (options_.pins_host) {
    UCP_ASSIGN_OR_RETURN(parts_->pin, Pin::Make(*device_, host_));
  }
  for (Lane& lane : parts_->lanes) {
    UCP_ASSIGN_OR_RETURN(lane.memory, DeviceMemory::Make(*device_, kListBytes + kLaneBytes + kBufferAlignment));
    UCP_ASSIGN_OR_RETURN(lane.list, PinnedMemory::Make(*device_, kListBytes));
    if (!options_.pins_host) {
      UCP_ASSIGN_OR_RETURN(lane.bounce, PinnedMemory::Make(*device_, kLaneBytes));
    }
    UCP_ASSIGN_OR_RETURN(lane.done, DeviceEvent::Make(*device_));
    UCP_ASSIGN_OR_RETURN(lane.stream, DeviceStream::Make(*device_));
  }
  return llvm::Error::success();
}

// A fork of the process has no part in its devices.
Unloader::~Unloader() {
  if (::getpid() != process_) [[maybe_unused]]
    const Parts* kept = parts_.release();
}

llvm::Error Unloader::Unload(std::vector<DeviceRows> rows, double share) {
  llvm::Error error = UnloadAll(rows, share);
  if (error) {  // Nobody knows what has come to memory between the device and the host.
    for (Lane& lane : parts_->lanes) lane.arriving = 0;
  }
  return FirstOf(std::move(error), Settle());
}

llvm::Error Unloader::UnloadAll(std::vector<DeviceRows>& rows, double share) {
  std::ranges::sort(rows, {}, &DeviceRows::to);
  for (DeviceRows& each : rows) {
    UCP_CHECK(each.to <= host_.size() && each.bytes() <= host_.size() - each.to, "{} bytes go to byte {} of {}",
              each.bytes(), each.to, host_.size());
    if (std::cmp_equal(each.stride, each.row_bytes)) {
      each = {.from = each.from, .row_bytes = each.bytes(), .to = each.to};
    }
    if (each.bytes() == 0) continue;
    const bool is_run = each.rows == 1 && each.row_bytes >= kLeastRun;
    UCP_RETURN_IF_ERROR(is_run ? CopyRun(each, share) : GatherRows(each, share));
  }
  return Send(share);
}

llvm::Error Unloader::CopyRun(const DeviceRows& run, double share) {
  UCP_RETURN_IF_ERROR(Send(share));
  for (std::uint64_t begin = 0; begin < run.row_bytes; begin += kLaneBytes) {
    const std::uint64_t bytes = std::min(kLaneBytes, run.row_bytes - begin);
    UCP_RETURN_IF_ERROR(CopyOut(run.to + begin, bytes, run.from + begin));
    UCP_RETURN_IF_ERROR(Sent(share));
  }
  return llvm::Error::success();
}

// In pieces of whole rows, or of parts of one row.
llvm::Error Unloader::GatherRows(const DeviceRows& rows, double share) {
  const std::uint64_t rows_of_piece = std::max<std::uint64_t>(1, kPieceBytes / rows.row_bytes);
  for (std::uint64_t row = 0; row < rows.rows; row += rows_of_piece) {
    DeviceRows piece = rows;
    piece.from = rows.from + static_cast<std::int64_t>(row) * rows.stride;
    piece.rows = std::min(rows_of_piece, rows.rows - row);
    piece.to = rows.to + row * rows.row_bytes;
    for (std::uint64_t begin = 0; begin < rows.row_bytes; begin += kPieceBytes) {
      DeviceRows part = piece;
      part.row_bytes = std::min(kPieceBytes, rows.row_bytes - begin);
      part.from += begin;
      part.to += begin;
      UCP_RETURN_IF_ERROR(GatherPiece(part, share));
    }
  }
  return llvm::Error::success();
}

llvm::Error Unloader::GatherPiece(const DeviceRows& piece, double share) {
  {
    const Lane& lane = parts_->lanes[parts_->current];
    const bool follows = lane.gathers > 0 && piece.to >= lane.end && piece.to - lane.end < kMostGap &&
                         piece.to + piece.bytes() - lane.begin <= kLaneBytes && lane.gathers < kMostGathers;
    if (!follows) UCP_RETURN_IF_ERROR(Send(share));
  }
  Lane& lane = parts_->lanes[parts_->current];
  if (lane.gathers == 0) {
    UCP_RETURN_IF_ERROR(Arrive(lane));
    UCP_RETURN_IF_ERROR(lane.done.Wait());  // Its list is to be written.
    lane.begin = piece.to;
  }
  UcpGather gather = {};
  gather.from = reinterpret_cast<std::uintptr_t>(piece.from);
  gather.stride = piece.stride;
  gather.to = piece.to - DownToAlignment(lane.begin);
  gather.row_bytes = static_cast<std::uint32_t>(piece.row_bytes);
  gather.rows = static_cast<std::uint32_t>(piece.rows);
  std::memcpy(lane.list.bytes().data() + lane.gathers++ * sizeof gather, &gather, sizeof gather);
  lane.end = piece.to + piece.bytes();
  return llvm::Error::success();
}

// Sends off the gathers of the current lane, if it has some.
llvm::Error Unloader::Send(double share) {
  Lane& lane = parts_->lanes[parts_->current];
  if (lane.gathers == 0) return llvm::Error::success();
  const auto count = static_cast<std::uint32_t>(std::exchange(lane.gathers, 0));
  std::byte* list = lane.memory.bytes().data();
  std::byte* buffer = list + kListBytes;
  UCP_RETURN_IF_ERROR(lane.stream.CopyIn(list, lane.list.bytes().first(count * sizeof(UcpGather))));
  UCP_RETURN_IF_ERROR(lane.stream.Gather(list, count, buffer));
  ++counts_.launches;
  const std::byte* first = buffer + (lane.begin - DownToAlignment(lane.begin));
  UCP_RETURN_IF_ERROR(CopyOut(lane.begin, lane.end - lane.begin, first));
  return Sent(share);
}

// From the device to the host, by the current lane.
llvm::Error Unloader::CopyOut(std::uint64_t to, std::uint64_t bytes, const std::byte* from) {
  Lane& lane = parts_->lanes[parts_->current];
  if (options_.pins_host) return lane.stream.CopyOut(host_.subspan(to, bytes), from);
  UCP_RETURN_IF_ERROR(Arrive(lane));
  UCP_RETURN_IF_ERROR(lane.stream.CopyOut(lane.bounce.bytes().first(bytes), from));
  lane.arriving = bytes;
  lane.arriving_at = to;
  return llvm::Error::success();
}

// The bytes that are on their way to the lane's pinned memory are copied to where they belong.
llvm::Error Unloader::Arrive(Lane& lane) {
  const std::uint64_t bytes = std::exchange(lane.arriving, 0);
  if (bytes == 0) return llvm::Error::success();
  UCP_RETURN_IF_ERROR(lane.done.Wait());
  const std::uint64_t items = (bytes + kCopyBytes - 1) / kCopyBytes;
  return ForEachInParallel(items, {options_.threads, nullptr}, [&](unsigned, std::uint64_t item) {
    const std::uint64_t begin = item * kCopyBytes;
    std::memcpy(host_.data() + lane.arriving_at + begin, lane.bounce.bytes().data() + begin,
                std::min(kCopyBytes, bytes - begin));
    return llvm::Error::success();
  });
}

// The current lane is on its way: the other's turn. A bus that is shared out is left alone afterwards.
llvm::Error Unloader::Sent(double share) {
  Lane& lane = parts_->lanes[parts_->current];
  ++counts_.transfers;
  UCP_RETURN_IF_ERROR(lane.stream.Record(lane.done));
  parts_->current = 1 - parts_->current;
  if (share >= 1) return llvm::Error::success();
  const auto begin = std::chrono::steady_clock::now();
  UCP_RETURN_IF_ERROR(lane.done.Wait());
  const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin;
  const std::chrono::duration<double> rest = used * (1 / share - 1);
  std::this_thread::sleep_for(rest);
  counts_.used += used;
  counts_.rested += rest;
  return llvm::Error::success();
}

// Nothing is on its way.
llvm::Error Unloader::Settle() {
  llvm::Error error = llvm::Error::success();
  for (Lane& lane : parts_->lanes) {
    lane.gathers = 0;
    error = FirstOf(std::move(error), Arrive(lane));
    error = FirstOf(std::move(error), lane.done.Wait());
  }
  return error;
}

}  // namespace ucp
