// Records in the memory of devices, each in the next one's of a list, in which null is the host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/gpu/device.h"
#include "runtime/load/load.h"

namespace ucp {

class DeviceRecords {
 public:
  // Each begins `shift` bytes behind a multiple of 64, and is full of something else before.
  DeviceRecords(const Plan& plan, const std::vector<RecordId>& records, const std::vector<const Device*>& devices,
                std::uint64_t shift);

  const std::vector<WantedRecord>& wanted() const { return wanted_; }
  std::map<RecordId, std::string> Contents() const;
  std::uint64_t bytes() const { return bytes_; }  // That were allocated for them on devices.

 private:
  std::vector<std::string> on_host_;
  std::vector<DeviceMemory> on_devices_;
  std::vector<WantedRecord> wanted_;
  std::uint64_t bytes_ = 0;
};

}  // namespace ucp
