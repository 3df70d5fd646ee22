#include "runtime/driver/loaded_view.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<LoadedView::Window> LoadedView::Make(const Device& device) const {
  UCP_ASSIGN_OR_RETURN(PinnedMemory memory, PinnedMemory::Make(device, window_bytes_));
  UCP_ASSIGN_OR_RETURN(DeviceEvent done, DeviceEvent::Make(device));
  UCP_ASSIGN_OR_RETURN(DeviceStream stream, DeviceStream::Make(device));
  return Window{&device, std::move(memory), std::move(done), std::move(stream), RecordId(), 0, 0};
}

llvm::Expected<const std::byte*> LoadedView::At(unsigned thread, RecordId record, std::uint64_t begin,
                                                std::uint64_t bytes, std::uint64_t end) {
  const Device* device = places_.DeviceOf(record);
  if (device == nullptr) return places_.Of(record).data() + begin;
  std::optional<Window>& window = windows_[thread];
  if (!window || window->device != device) {
    UCP_ASSIGN_OR_RETURN(Window made, Make(*device));
    window.emplace(std::move(made));
  }
  if (window->record != record || begin < window->begin || begin + bytes > window->end) {
    window->record = record;
    window->begin = begin;
    window->end = std::min(begin + window_bytes_, std::max(end, begin + bytes));
    UCP_RETURN_IF_ERROR(
        window->stream.CopyOut(window->memory.bytes().first(window->end - begin), places_.Of(record).data() + begin));
    UCP_RETURN_IF_ERROR(window->stream.Record(window->done));
    UCP_RETURN_IF_ERROR(window->done.Wait());
  }
  return window->memory.bytes().data() + (begin - window->begin);
}

}  // namespace ucp
