// One line for each call of the plugin, and its error.
#include "runtime/gpu/device.h"

#include "compiler/support/error.h"

namespace ucp {

Device::Device(const UcpDeviceCalls& calls, int index)
    : calls_(calls), index_(index), name_(fmt::format("{}:{}", calls.kind, index)) {}

llvm::Error Device::Check(int code) const {
  if (code == 0) return llvm::Error::success();
  return Fail(ErrorCode::kIo, "{}: {}", name_, calls_.last_error());
}

llvm::Expected<DeviceFacts> Device::Facts() const {
  UcpDeviceFacts facts = {};
  UCP_RETURN_IF_ERROR(Check(calls_.describe(index_, &facts)));
  return DeviceFacts{facts.model, facts.memory_bytes, facts.free_bytes};
}

llvm::Expected<DeviceMemory> DeviceMemory::Make(const Device& device, std::uint64_t bytes) {
  void* memory = nullptr;
  UCP_RETURN_IF_ERROR(device.Check(device.calls().allocate(device.index(), bytes, &memory)));
  DeviceMemory made;
  made.memory_ = {static_cast<std::byte*>(memory), {&device}};
  made.bytes_ = bytes;
  return made;
}

llvm::Expected<PinnedMemory> PinnedMemory::Make(const Device& device, std::uint64_t bytes) {
  void* memory = nullptr;
  UCP_RETURN_IF_ERROR(device.Check(device.calls().allocate_pinned(device.index(), bytes, &memory)));
  PinnedMemory made;
  made.memory_ = {static_cast<std::byte*>(memory), {&device}};
  made.bytes_ = bytes;
  return made;
}

llvm::Expected<Pin> Pin::Make(const Device& device, std::span<std::byte> memory) {
  UCP_RETURN_IF_ERROR(device.Check(device.calls().pin(device.index(), memory.data(), memory.size())));
  Pin made;
  made.memory_ = {memory.data(), {&device}};
  return made;
}

llvm::Expected<DeviceEvent> DeviceEvent::Make(const Device& device) {
  UcpEvent* event = nullptr;
  UCP_RETURN_IF_ERROR(device.Check(device.calls().make_event(device.index(), &event)));
  DeviceEvent made;
  made.event_ = {event, {&device}};
  return made;
}

llvm::Expected<bool> DeviceEvent::HasPassed() const {
  const Device& device = *event_.get_deleter().device;
  int passed = 0;
  UCP_RETURN_IF_ERROR(device.Check(device.calls().has_passed(event_.get(), &passed)));
  return passed != 0;
}

llvm::Error DeviceEvent::Wait() const {
  const Device& device = *event_.get_deleter().device;
  return device.Check(device.calls().wait(event_.get()));
}

llvm::Expected<DeviceStream> DeviceStream::Make(const Device& device) {
  UcpStream* stream = nullptr;
  UCP_RETURN_IF_ERROR(device.Check(device.calls().make_stream(device.index(), &stream)));
  DeviceStream made;
  made.stream_ = {stream, {&device}};
  return made;
}

llvm::Error DeviceStream::CopyIn(std::byte* to, std::span<const std::byte> from) {
  return device().Check(device().calls().copy_in(stream_.get(), to, from.data(), from.size()));
}

llvm::Error DeviceStream::CopyOut(std::span<std::byte> to, const std::byte* from) {
  return device().Check(device().calls().copy_out(stream_.get(), to.data(), from, to.size()));
}

llvm::Error DeviceStream::Fill(std::span<std::byte> memory, std::byte value) {
  return device().Check(
      device().calls().fill(stream_.get(), memory.data(), std::to_integer<int>(value), memory.size()));
}

llvm::Error DeviceStream::Move(const std::byte* moves, std::uint32_t count, const std::byte* buffer) {
  return device().Check(device().calls().move(stream_.get(), reinterpret_cast<const UcpMove*>(moves), count, buffer));
}

llvm::Error DeviceStream::Gather(const std::byte* gathers, std::uint32_t count, std::byte* buffer) {
  return device().Check(
      device().calls().gather(stream_.get(), reinterpret_cast<const UcpGather*>(gathers), count, buffer));
}

llvm::Error DeviceStream::Record(const DeviceEvent& event) {
  return device().Check(device().calls().record(stream_.get(), event.handle()));
}

}  // namespace ucp
