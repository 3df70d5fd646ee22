#include "runtime/load/opened_devices.h"

#include "compiler/support/error.h"
#include "runtime/gpu/open_device.h"

namespace ucp {

llvm::Expected<const Device*> OpenedDevices::Open(const std::string& name) {
  std::unique_ptr<Device>& device = devices_[name];
  if (device == nullptr) {
    UCP_ASSIGN_OR_RETURN(device, OpenDevice(name));
  }
  return device.get();
}

}  // namespace ucp
