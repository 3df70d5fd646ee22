// A device with memory of its own, such as a GPU, behind the calls of its plugin (device_calls.h). Resources are given
// back when their object is destroyed; it must not outlive its Device. All is callable from any thread. Errors are kIo
// and name the device, the call and its reason: "cuda:0: cudaMalloc of 536870912 bytes: out of memory".
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/gpu/device_calls.h"

namespace ucp {

struct DeviceFacts {
  std::string model;
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_bytes = 0;
};

class Device {
 public:
  // `calls` lives as long as the process; `index` is below their count.
  Device(const UcpDeviceCalls& calls, int index);

  const std::string& name() const { return name_; }  // "cuda:0"
  const UcpDeviceCalls& calls() const { return calls_; }
  int index() const { return index_; }
  llvm::Expected<DeviceFacts> Facts() const;

  // The error of a call that did not return 0.
  [[nodiscard]] llvm::Error Check(int code) const;

 private:
  const UcpDeviceCalls& calls_;
  const int index_;
  const std::string name_;
};

// Memory of the device. Its bytes are for streams, and not for the host to look at.
class DeviceMemory {
 public:
  static llvm::Expected<DeviceMemory> Make(const Device& device, std::uint64_t bytes);
  std::span<std::byte> bytes() const { return {memory_.get(), bytes_}; }

 private:
  struct Release {
    const Device* device;
    void operator()(std::byte* memory) const { (void)device->calls().release(device->index(), memory); }
  };
  std::unique_ptr<std::byte, Release> memory_;
  std::uint64_t bytes_ = 0;
};

// Memory of the host that streams copy from and to.
class PinnedMemory {
 public:
  static llvm::Expected<PinnedMemory> Make(const Device& device, std::uint64_t bytes);
  std::span<std::byte> bytes() const { return {memory_.get(), bytes_}; }

 private:
  struct Release {
    const Device* device;
    void operator()(std::byte* memory) const { (void)device->calls().release_pinned(device->index(), memory); }
  };
  std::unique_ptr<std::byte, Release> memory_;
  std::uint64_t bytes_ = 0;
};

// Memory of the host that is pinned as long as this is there. Its owner gives it back later than that.
class Pin {
 public:
  static llvm::Expected<Pin> Make(const Device& device, std::span<std::byte> memory);

 private:
  struct Release {
    const Device* device;
    void operator()(std::byte* memory) const { (void)device->calls().unpin(device->index(), memory); }
  };
  std::unique_ptr<std::byte, Release> memory_;
};

class DeviceEvent {
 public:
  static llvm::Expected<DeviceEvent> Make(const Device& device);
  UcpEvent* handle() const { return event_.get(); }

  // Returns whether the event has passed, as one has that was never recorded.
  llvm::Expected<bool> HasPassed() const;
  [[nodiscard]] llvm::Error Wait() const;

 private:
  struct End {
    const Device* device;
    void operator()(UcpEvent* event) const { (void)device->calls().end_event(event); }
  };
  std::unique_ptr<UcpEvent, End> event_;
};

// Does its work in the order in which it is given, some time later. Memory that it reads or writes must last until
// then, which an event tells; a stream that is destroyed does the rest first.
class DeviceStream {
 public:
  static llvm::Expected<DeviceStream> Make(const Device& device);

  // `to` in the device's memory, `from` pinned.
  [[nodiscard]] llvm::Error CopyIn(std::byte* to, std::span<const std::byte> from);
  // `to` pinned, `from` in the device's memory.
  [[nodiscard]] llvm::Error CopyOut(std::span<std::byte> to, const std::byte* from);
  [[nodiscard]] llvm::Error Fill(std::span<std::byte> memory, std::byte value);
  // Does all moves at once: the moves lie in the device's memory, `count` of them, and so does the buffer that they are
  // out of.
  [[nodiscard]] llvm::Error Move(const std::byte* moves, std::uint32_t count, const std::byte* buffer);
  // Does all gathers at once: they lie in the device's memory, `count` of them, and so does the buffer that they fill.
  [[nodiscard]] llvm::Error Gather(const std::byte* gathers, std::uint32_t count, std::byte* buffer);

  // The event passes when all is done that the stream was given so far.
  [[nodiscard]] llvm::Error Record(const DeviceEvent& event);

 private:
  struct End {
    const Device* device;
    void operator()(UcpStream* stream) const { (void)device->calls().end_stream(stream); }
  };
  const Device& device() const { return *stream_.get_deleter().device; }
  std::unique_ptr<UcpStream, End> stream_;
};

}  // namespace ucp
