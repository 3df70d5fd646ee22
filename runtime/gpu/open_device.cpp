#include "runtime/gpu/open_device.h"

#include <dlfcn.h>

#include <optional>
#include <string>

#include "compiler/support/error.h"
#include "runtime/comm/find_plugin.h"

namespace ucp {
namespace {

constexpr const char* kPlugin = "ucp_cuda.so";

llvm::Expected<const UcpDeviceCalls*> OpenPlugin(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Fail(ErrorCode::kIo, "cannot open `{}`: {}", path, ::dlerror());
  const auto devices = reinterpret_cast<decltype(&UcpDevices)>(::dlsym(library, "UcpDevices"));
  const UcpDeviceCalls* calls = devices != nullptr ? devices() : nullptr;
  if (calls == nullptr || calls->version != kUcpDeviceCallsVersion) {
    return Fail(ErrorCode::kIo, "`{}` is not of this version of ucp", path);
  }
  return calls;
}

// The number behind "cuda:"; -1 for "cuda".
std::optional<int> IndexIn(std::string_view name) {
  constexpr std::string_view kKind = "cuda";
  constexpr std::size_t kMostDigits = 4;
  if (name == kKind) return -1;
  if (!name.starts_with("cuda:")) return std::nullopt;
  const std::string digits(name.substr(kKind.size() + 1));
  if (digits.empty() || digits.size() > kMostDigits || digits.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoi(digits);
}

}  // namespace

llvm::Expected<std::unique_ptr<Device>> OpenDevice(std::string_view name, int place) {
  if (name == "cpu") return nullptr;
  const std::optional<int> index = IndexIn(name);
  if (!index) {
    return Fail(ErrorCode::kUsage, "`{}` is not a device that can be loaded into; those are cpu, cuda and cuda:N",
                name);
  }
  const std::string path = FindPlugin(kPlugin);
  if (path.empty()) {
    return Fail(
        ErrorCode::kUnsupported,
        "`{}`: this ucp was built without CUDA ({} is not there); build it where nvcc is (docs/building.md), or "
        "load into the memory of the host",
        name, kPlugin);
  }
  UCP_ASSIGN_OR_RETURN(const UcpDeviceCalls* calls, OpenPlugin(path));
  int devices = 0;
  if (calls->count(&devices) != 0) {
    return Fail(ErrorCode::kUnsupported, "`{}`: there is no GPU that can be used: {}", name, calls->last_error());
  }
  if (devices == 0) return Fail(ErrorCode::kUnsupported, "`{}`: this process sees no GPU", name);
  if (*index >= devices) {
    return Fail(ErrorCode::kUsage, "`{}`: this process sees {} {}, counted from 0", name, devices,
                devices == 1 ? "GPU" : "GPUs");
  }
  return std::make_unique<Device>(*calls, *index < 0 ? place % devices : *index);
}

const char* CudaSupport() { return FindPlugin(kPlugin).empty() ? "no CUDA" : "CUDA"; }

}  // namespace ucp
