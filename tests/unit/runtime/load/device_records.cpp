#include "tests/unit/runtime/load/device_records.h"

#include <cstring>

#include "compiler/support/check.h"

namespace ucp {
namespace {

template <typename T>
T Must(llvm::Expected<T> made) {
  UCP_CHECK(static_cast<bool>(made), "a device of the tests fails: {}", llvm::toString(made.takeError()));
  return std::move(*made);
}

}  // namespace

DeviceRecords::DeviceRecords(const Plan& plan, const std::vector<RecordId>& records,
                             const std::vector<const Device*>& devices, std::uint64_t shift) {
  on_host_.reserve(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::uint64_t bytes = plan.target.record(records[i]).bytes;
    const Device* device = devices[i % devices.size()];
    std::byte* memory = nullptr;
    if (device == nullptr) {
      memory = reinterpret_cast<std::byte*>(on_host_.emplace_back(bytes + shift + 1, '\x5a').data());
    } else {
      bytes_ += bytes + shift + 1;
      memory = on_devices_.emplace_back(Must(DeviceMemory::Make(*device, bytes + shift + 1))).bytes().data();
    }
    wanted_.push_back({records[i], {memory + shift, bytes}, device});
  }
}

std::map<RecordId, std::string> DeviceRecords::Contents() const {
  std::map<RecordId, std::string> contents;
  for (const WantedRecord& record : wanted_) {
    std::string& content = contents[record.record];
    content.resize(record.memory.size());
    if (record.device == nullptr) {
      std::memcpy(content.data(), record.memory.data(), content.size());
      continue;
    }
    const PinnedMemory pinned = Must(PinnedMemory::Make(*record.device, content.size()));
    DeviceStream stream = Must(DeviceStream::Make(*record.device));
    const DeviceEvent done = Must(DeviceEvent::Make(*record.device));
    llvm::cantFail(stream.CopyOut(pinned.bytes(), record.memory.data()));
    llvm::cantFail(stream.Record(done));
    llvm::cantFail(done.Wait());
    std::memcpy(content.data(), pinned.bytes().data(), content.size());
  }
  return contents;
}

}  // namespace ucp
