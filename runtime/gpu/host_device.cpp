// Addresses of device memory are given out with a bit that no address of the host has, so that a host that looks there
// by itself ends at once. Counts are made without locks, since a lock that two threads take would hide from
// ThreadSanitizer that they share memory without waiting for each other.
#include "runtime/gpu/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/gpu/host_device_blocks.h"
#include "runtime/gpu/host_device_stream.h"
#include "runtime/gpu/move.h"

using Blocks = ucp::HostDeviceBlocks;
using ucp::HostDeviceCounts;
using ucp::HostDeviceOptions;

namespace {

constexpr std::uintptr_t kDeviceBit = std::uintptr_t{1} << 62;

struct Memory {
  std::mutex mutex;
  std::map<int, Blocks> of_devices;
  Blocks pinned;
};

HostDeviceOptions options;
Memory memory;
std::atomic<std::uint64_t> calls, transfers, transferred_bytes, launches, most_memory, most_pinned;
std::atomic<std::int64_t> not_given_back;
thread_local std::string error;  // NOLINT

int Fail(std::string text) {
  error = std::move(text);
  return 1;
}

// Whether it is this call's turn to fail.
int Enter(const char* call) { return ++calls == options.fail_at ? Fail(fmt::format("{}: told to fail", call)) : 0; }

bool IsOfDevice(int device, std::uintptr_t begin, std::uint64_t bytes) {
  if (!options.checks_addresses) return true;
  std::lock_guard lock(memory.mutex);
  return memory.of_devices[device].Hold(begin, bytes);
}

bool IsPinned(const void* begin, std::uint64_t bytes) {
  std::lock_guard lock(memory.mutex);
  return memory.pinned.Hold(reinterpret_cast<std::uintptr_t>(begin), bytes);
}

// NOLINTNEXTLINE(performance-no-int-to-ptr)
std::byte* HostAddress(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address & ~kDeviceBit); }
std::byte* HostAddress(const void* address) { return HostAddress(reinterpret_cast<std::uintptr_t>(address)); }

int CheckDevice(const char* call, int device, const void* address, std::uint64_t bytes) {
  if (IsOfDevice(device, reinterpret_cast<std::uintptr_t>(address), bytes)) return 0;
  return Fail(fmt::format("{}: {} bytes at {} are not the device's", call, bytes, address));
}

int CheckPinned(const char* call, const void* address, std::uint64_t bytes) {
  if (IsPinned(address, bytes)) return 0;
  return Fail(fmt::format("{}: {} bytes at {} are not pinned", call, bytes, address));
}

const char* LastError() { return error.c_str(); }

int Count(int* devices) {
  if (int code = Enter("count"); code != 0) return code;
  *devices = options.devices;
  return 0;
}

int Describe(int device, UcpDeviceFacts* facts) {
  if (int code = Enter("describe"); code != 0) return code;
  std::lock_guard lock(memory.mutex);
  std::strncpy(facts->model, "host stand-in", sizeof facts->model - 1);
  facts->memory_bytes = options.memory_bytes;
  facts->free_bytes = options.memory_bytes - memory.of_devices[device].bytes();
  return 0;
}

int AllocateIn(Blocks& blocks, std::uint64_t bytes, std::uintptr_t mark, std::atomic<std::uint64_t>& most,
               void** made) {
  auto* block = new std::byte[std::max<std::uint64_t>(bytes, 1)];
  std::memset(block, 0xCD, bytes);  // Memory that nobody fills must not look right.
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(block) | mark;
  blocks.Add(address, bytes);
  most = std::max<std::uint64_t>(most, blocks.bytes());
  ++not_given_back;
  *made = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  return 0;
}

int ReleaseFrom(Blocks& blocks, void* address) {
  if (!blocks.Remove(reinterpret_cast<std::uintptr_t>(address))) return Fail("release: nothing was allocated there");
  delete[] HostAddress(address);
  --not_given_back;
  return 0;
}

int Allocate(int device, std::uint64_t bytes, void** made) {
  if (int code = Enter("allocate"); code != 0) return code;
  std::lock_guard lock(memory.mutex);
  Blocks& blocks = memory.of_devices[device];
  if (blocks.bytes() + bytes > options.memory_bytes)
    return Fail(fmt::format("allocate {} bytes: out of memory", bytes));
  return AllocateIn(blocks, bytes, options.checks_addresses ? kDeviceBit : 0, most_memory, made);
}

int Release(int device, void* address) {
  std::lock_guard lock(memory.mutex);
  return ReleaseFrom(memory.of_devices[device], address);
}

int AllocatePinned(int, std::uint64_t bytes, void** made) {
  if (int code = Enter("allocate_pinned"); code != 0) return code;
  std::lock_guard lock(memory.mutex);
  return AllocateIn(memory.pinned, bytes, 0, most_pinned, made);
}

int ReleasePinned(int, void* address) {
  std::lock_guard lock(memory.mutex);
  return ReleaseFrom(memory.pinned, address);
}

int Pin(int, void* address, std::uint64_t bytes) {
  if (int code = Enter("pin"); code != 0) return code;
  std::lock_guard lock(memory.mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (memory.pinned.Hold(begin, bytes)) return 0;
  memory.pinned.Add(begin, bytes);
  ++not_given_back;
  return 0;
}

int Unpin(int, void* address) {
  std::lock_guard lock(memory.mutex);
  if (!memory.pinned.Remove(reinterpret_cast<std::uintptr_t>(address))) return Fail("unpin: nothing was pinned there");
  --not_given_back;
  return 0;
}

int MakeStream(int device, UcpStream** stream) {
  if (int code = Enter("make_stream"); code != 0) return code;
  *stream = new UcpStream(device, options.delay);
  ++not_given_back;
  return 0;
}

int EndStream(UcpStream* stream) {
  delete stream;
  --not_given_back;
  return 0;
}

int MakeEvent(int, UcpEvent** event) {
  if (int code = Enter("make_event"); code != 0) return code;
  *event = new UcpEvent;
  ++not_given_back;
  return 0;
}

int EndEvent(UcpEvent* event) {
  delete event;
  --not_given_back;
  return 0;
}

int Record(UcpStream* stream, UcpEvent* event) {
  if (int code = Enter("record"); code != 0) return code;
  const std::shared_ptr<UcpEvent::State> state = event->state;
  std::uint64_t number = 0;
  {
    std::lock_guard lock(state->mutex);
    number = ++state->recorded;
  }
  stream->Give([stream, state, number] {
    std::lock_guard lock(state->mutex);
    state->passed = std::max(state->passed, number);
    state->has_failed = stream->has_failed;
    state->changed.notify_all();
  });
  return 0;
}

int Outcome(const UcpEvent::State& state) {
  return state.has_failed ? Fail("a move leads out of the device's memory, or to a place that is not aligned") : 0;
}

int HasPassed(UcpEvent* event, int* passed) {
  if (int code = Enter("has_passed"); code != 0) return code;
  std::lock_guard lock(event->state->mutex);
  *passed = event->state->passed == event->state->recorded ? 1 : 0;
  return Outcome(*event->state);
}

int Wait(UcpEvent* event) {
  if (int code = Enter("wait"); code != 0) return code;
  std::unique_lock lock(event->state->mutex);
  event->state->changed.wait(lock, [&] { return event->state->passed == event->state->recorded; });
  return Outcome(*event->state);
}

int CopyIn(UcpStream* stream, void* to, const void* from, std::uint64_t bytes) {
  if (int code = Enter("copy_in"); code != 0) return code;
  if (int code = CheckDevice("copy_in", stream->device, to, bytes); code != 0) return code;
  if (int code = CheckPinned("copy_in", from, bytes); code != 0) return code;
  ++transfers;
  transferred_bytes += bytes;
  stream->Give([=] { std::memcpy(HostAddress(to), from, bytes); });
  return 0;
}

int CopyOut(UcpStream* stream, void* to, const void* from, std::uint64_t bytes) {
  if (int code = Enter("copy_out"); code != 0) return code;
  if (int code = CheckDevice("copy_out", stream->device, from, bytes); code != 0) return code;
  if (int code = CheckPinned("copy_out", to, bytes); code != 0) return code;
  stream->Give([=] {
    std::memcpy(to, HostAddress(from), bytes);
    if (options.flips_a_bit && bytes > 0) *static_cast<std::byte*>(to) ^= std::byte{1};
  });
  return 0;
}

int Fill(UcpStream* stream, void* to, int byte, std::uint64_t bytes) {
  if (int code = Enter("fill"); code != 0) return code;
  if (int code = CheckDevice("fill", stream->device, to, bytes); code != 0) return code;
  ++launches;
  stream->Give([=] { std::memset(HostAddress(to), byte, bytes); });
  return 0;
}

std::uint64_t BytesOf(std::uint16_t number) {
  constexpr std::uint64_t kBytes[] = {1, 8, 4, 2, 2};
  return number < 5 ? kBytes[number] : 0;
}

bool MayMove(int device, const UcpMove& move, std::uintptr_t buffer) {
  const std::uint64_t from = BytesOf(move.from_number);
  const std::uint64_t to = BytesOf(move.to_number);
  return from != 0 && to != 0 && move.from % from == 0 && move.to % to == 0 &&
         (move.from_number == kUcpBytes) == (move.to_number == kUcpBytes) &&
         IsOfDevice(device, buffer + move.from, move.count * from) && IsOfDevice(device, move.to, move.count * to);
}

int Move(UcpStream* stream, const UcpMove* moves, std::uint32_t count, const void* buffer) {
  if (int code = Enter("move"); code != 0) return code;
  if (int code = CheckDevice("move", stream->device, moves, count * sizeof(UcpMove)); code != 0) return code;
  ++launches;
  stream->Give([=] {
    const auto* list = reinterpret_cast<const UcpMove*>(HostAddress(moves));
    for (std::uint32_t i = 0; i < count; ++i) {
      UcpMove move = list[i];
      if (!MayMove(stream->device, move, reinterpret_cast<std::uintptr_t>(buffer))) {
        stream->has_failed = true;
        return;
      }
      move.to &= ~kDeviceBit;
      constexpr std::uint32_t kLanes = 3;
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) ucp::MoveShare(move, HostAddress(buffer), {lane, kLanes});
    }
  });
  return 0;
}

bool MayGather(int device, const UcpGather& gather, std::uintptr_t buffer) {
  if (gather.rows == 0 || gather.row_bytes == 0) return true;
  const std::uint64_t last = gather.from + static_cast<std::uint64_t>(gather.stride) * (gather.rows - 1);
  return std::uint64_t{gather.rows} * gather.row_bytes <= kUcpMostGathered &&
         IsOfDevice(device, gather.from, gather.row_bytes) && IsOfDevice(device, last, gather.row_bytes) &&
         IsOfDevice(device, buffer + gather.to, std::uint64_t{gather.rows} * gather.row_bytes);
}

int Gather(UcpStream* stream, const UcpGather* gathers, std::uint32_t count, void* buffer) {
  if (int code = Enter("gather"); code != 0) return code;
  if (int code = CheckDevice("gather", stream->device, gathers, count * sizeof(UcpGather)); code != 0) return code;
  ++launches;
  stream->Give([=] {
    const auto* list = reinterpret_cast<const UcpGather*>(HostAddress(gathers));
    for (std::uint32_t i = 0; i < count; ++i) {
      UcpGather gather = list[i];
      if (!MayGather(stream->device, gather, reinterpret_cast<std::uintptr_t>(buffer))) {
        stream->has_failed = true;
        return;
      }
      gather.from &= ~kDeviceBit;
      constexpr std::uint32_t kLanes = 3;
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) ucp::GatherShare(gather, HostAddress(buffer), {lane, kLanes});
    }
  });
  return 0;
}

constexpr UcpDeviceCalls kCalls = {.version = kUcpDeviceCallsVersion,
                                   .kind = "cuda",
                                   .last_error = LastError,
                                   .count = Count,
                                   .describe = Describe,
                                   .allocate = Allocate,
                                   .release = Release,
                                   .allocate_pinned = AllocatePinned,
                                   .release_pinned = ReleasePinned,
                                   .pin = Pin,
                                   .unpin = Unpin,
                                   .make_stream = MakeStream,
                                   .end_stream = EndStream,
                                   .make_event = MakeEvent,
                                   .end_event = EndEvent,
                                   .record = Record,
                                   .has_passed = HasPassed,
                                   .wait = Wait,
                                   .copy_in = CopyIn,
                                   .copy_out = CopyOut,
                                   .fill = Fill,
                                   .move = Move,
                                   .gather = Gather};

}  // namespace

namespace ucp {

const UcpDeviceCalls& HostDeviceCalls() { return kCalls; }

void SetHostDevice(const HostDeviceOptions& chosen) {
  options = chosen;
  calls = transfers = transferred_bytes = launches = most_memory = most_pinned = 0;
}

HostDeviceCounts CountsOfHostDevice() {
  return {calls, transfers, transferred_bytes, launches, most_memory, most_pinned, not_given_back};
}

}  // namespace ucp
