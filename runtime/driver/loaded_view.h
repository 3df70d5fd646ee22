// Shows loaded memory to the host: the memory itself, or, if it is a device's, a copy of one window of it at a time.
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
  // One call shows at most `window_bytes`. `places` must outlive this object.
  LoadedView(const Places& places, unsigned threads, std::uint64_t window_bytes)
      : places_(places), window_bytes_(window_bytes), windows_(threads) {}

  // Returns bytes [begin, begin + bytes) of a record, which are valid until the thread's next call. The caller will ask
  // for those up to `end` next. Fails with kIo if the device does.
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
