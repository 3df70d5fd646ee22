#include "runtime/load/opened_devices.h"

#include <utility>

#include "compiler/support/error.h"
#include "runtime/gpu/open_device.h"

namespace ucp {

llvm::Expected<const Device*> OpenedDevices::Open(const std::string& name) {
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) return known->second;
  UCP_ASSIGN_OR_RETURN(std::unique_ptr<Device> opened, OpenDevice(name));
  const Device* device = nullptr;
  if (opened != nullptr) {
    const int index = opened->index();
    device = devices_.try_emplace(index, std::move(opened)).first->second.get();
  }
  by_name_.emplace(name, device);
  return device;
}

}  // namespace ucp
