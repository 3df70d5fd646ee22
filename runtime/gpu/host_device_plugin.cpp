// The stand-in as a plugin, for tests of the programs: put beside one as ucp_cuda.so, it is its GPU. UCP_HOST_DEVICE
// says what it is like: "devices=0", "memory=100000,fail_at=7", "delay=500" (microseconds), "checks=0", "flip=1".
#include <cstdlib>
#include <string>

#include "runtime/gpu/host_device.h"

namespace {

ucp::HostDeviceOptions OptionsFrom(std::string text) {
  ucp::HostDeviceOptions options;
  while (!text.empty()) {
    const std::string pair = text.substr(0, text.find(','));
    text.erase(0, pair.size() + 1);
    const std::size_t equals = pair.find('=');
    const std::string name = pair.substr(0, equals);
    const std::uint64_t value = std::strtoull(pair.c_str() + equals + 1, nullptr, 10);
    if (name == "devices") options.devices = static_cast<int>(value);
    if (name == "memory") options.memory_bytes = value;
    if (name == "delay") options.delay = std::chrono::microseconds(value);
    if (name == "checks") options.checks_addresses = value != 0;
    if (name == "flip") options.flips_a_bit = value != 0;
    if (name == "fail_at") options.fail_at = value;
  }
  return options;
}

}  // namespace

const UcpDeviceCalls* UcpDevices() {
  const char* text = std::getenv("UCP_HOST_DEVICE");
  ucp::SetHostDevice(OptionsFrom(text != nullptr ? text : ""));
  return &ucp::HostDeviceCalls();
}
