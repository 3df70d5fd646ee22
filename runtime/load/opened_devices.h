// The devices that a caller's memory for a load is on.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <memory>
#include <string>

#include "runtime/gpu/device.h"

namespace ucp {

// Each is opened once, whichever of its names is used, and lasts as long as this.
class OpenedDevices {
 public:
  // As OpenDevice() (runtime/gpu/open_device.h): null for "cpu".
  llvm::Expected<const Device*> Open(const std::string& name);

 private:
  std::map<int, std::unique_ptr<Device>> devices_;  // By index.
  std::map<std::string, const Device*> by_name_;    // "cuda" and "cuda:0" are one.
};

}  // namespace ucp
