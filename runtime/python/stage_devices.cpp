#include "runtime/python/stage_devices.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/gpu/open_device.h"
#include "runtime/gpu/unload.h"
#include "runtime/python/raise.h"
#include "runtime/save/save_client.h"
#include "runtime/save/stage.h"

namespace nb = nanobind;

namespace ucp {
namespace {

using Numbers = std::vector<std::int64_t>;
// (address on the device, bytes of an element, sizes, strides in elements, place in the segment)
using DeviceBox = std::tuple<std::uintptr_t, std::int64_t, Numbers, Numbers, std::uint64_t>;

// The way from one device to a rank's segment, whatever segment that is at a time.
class DeviceStaging {
 public:
  // `options`: as for Unloader.
  DeviceStaging(const std::string& name, const UnloadOptions& options) : options_(options) {
    llvm::Expected<std::unique_ptr<Device>> device = OpenDevice(name);
    Raise(device.takeError());
    device_ = std::move(*device);
  }

  // For the segment of this time, which holds on to the way, so that it is unpinned first when the segment ends.
  llvm::Error Prepare(SaveClient& client) {
    if (client.segment().empty() || !unloader_.expired()) return llvm::Error::success();
    UCP_ASSIGN_OR_RETURN(std::shared_ptr<Unloader> unloader, Unloader::Make(device_, client.segment(), options_));
    unloader_ = unloader;
    client.KeepWithSegment(std::move(unloader));
    return llvm::Error::success();
  }

  llvm::Error Stage(SaveClient& client, std::vector<DeviceRows> rows, double share) {
    UCP_RETURN_IF_ERROR(Prepare(client));
    const std::shared_ptr<Unloader> unloader = unloader_.lock();
    return unloader == nullptr ? llvm::Error::success() : unloader->Unload(std::move(rows), share);
  }

 private:
  const UnloadOptions options_;
  std::shared_ptr<const Device> device_;
  std::weak_ptr<Unloader> unloader_;
};

void PrepareForPython(DeviceStaging& staging, SaveClient& client) {
  llvm::Error error = llvm::Error::success();
  {
    nb::gil_scoped_release unlocked;
    error = llvm::joinErrors(std::move(error), staging.Prepare(client));
  }
  Raise(std::move(error));
}

// The dimensions that count rows. One of a single position does not count.
std::vector<std::size_t> OuterDims(const BoxMemory& box, const BoxRows& rows) {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 0; dim < rows.outer; ++dim) {
    if (box.sizes[dim] != 1) dims.push_back(dim);
  }
  return dims;
}

// Returns the numbers of the boxes that it leaves to the caller: those with rows at other than equal distances.
std::vector<std::size_t> StageForPython(DeviceStaging& staging, SaveClient& client, const std::vector<DeviceBox>& boxes,
                                        double share) {
  std::vector<DeviceRows> device_rows;
  std::vector<std::size_t> left;
  for (std::size_t number = 0; number < boxes.size(); ++number) {
    const auto& [address, item_bytes, sizes, strides, to] = boxes[number];
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses as numbers.
    const BoxMemory box{reinterpret_cast<const std::byte*>(address), item_bytes, sizes, strides};
    const BoxRows rows = RowsOf(box);
    const std::vector<std::size_t> outer = OuterDims(box, rows);
    if (outer.size() > 1) {
      left.push_back(number);
      continue;
    }
    const std::int64_t stride = outer.empty() ? 0 : strides[outer.front()] * item_bytes;
    device_rows.push_back({box.address, rows.row_bytes, rows.count, stride, to});
  }
  llvm::Error error = llvm::Error::success();
  {
    nb::gil_scoped_release unlocked;
    error = llvm::joinErrors(std::move(error), staging.Stage(client, std::move(device_rows), share));
  }
  Raise(std::move(error));
  return left;
}

}  // namespace

void AddDeviceStaging(nb::module_& module) {
  nb::class_<DeviceStaging>(module, "DeviceStaging")
      .def(
          "__init__",
          [](DeviceStaging* made, const std::string& device, bool pins, unsigned threads) {
            new (made) DeviceStaging(device, {pins, threads});
          },
          nb::arg("device"), nb::arg("pins"), nb::arg("threads"))
      .def("prepare", &PrepareForPython, nb::arg("client"))
      .def("stage", &StageForPython, nb::arg("client"), nb::arg("boxes"), nb::arg("share"));
}

}  // namespace ucp
