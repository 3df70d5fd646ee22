// A view of what was loaded, for the host: where it lies, or, if that is a device's memory, a window of it at a time.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/gpu/device.h"
#include "runtime/load/places.h"

namespace ucp {

class LoadedView {
 public:
  // No more than `window_bytes` are looked at in one call. `places` must outlive this.
  LoadedView(const Places& places, unsigned threads, std::uint64_t window_bytes)
      : places_(places), window_bytes_(window_bytes), windows_(threads) {}

  // Bytes [begin, begin + bytes) of a record, until the thread's next call; those up to `end` will be asked for next.
  llvm::Expected<const std::byte*> At(unsigned thread, RecordId record, std::uint64_t begin, std::uint64_t bytes,
                                      std::uint64_t end);

 private:
  struct Window {
    const Device* device;
    PinnedMemory memory;
    DeviceEvent done;
    DeviceStream stream;
    RecordId record;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  llvm::Expected<Window> Make(const Device& device) const;

  const Places& places_;
  const std::uint64_t window_bytes_;
  std::vector<std::optional<Window>> windows_;  // By thread.
};

}  // namespace ucp
