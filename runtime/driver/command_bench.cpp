// `ucprun bench`: what this machine's storage and memory can do, to hold a conversion's rate against.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "compiler/command_line/terminal.h"
#include "compiler/support/error.h"
#include "compiler/support/units.h"
#include "runtime/comm/launcher.h"
#include "runtime/command_line/work_options.h"
#include "runtime/driver/commands.h"
#include "runtime/gpu/bus_speed.h"
#include "runtime/gpu/open_device.h"
#include "runtime/storage/storage_speed.h"

namespace ucp {
namespace {

struct BenchOptions {
  std::string folder;
  std::string size = "512MiB";
  std::string device = "cpu";
  WorkOptions work;
};

// Both directions of a device's bus; nothing for the host.
llvm::Error AddBus(const std::string& name, std::uint64_t bytes, std::vector<Speed>& speeds) {
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(name));
  if (device == nullptr) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(const DeviceFacts facts, device->Facts());
  UCP_ASSIGN_OR_RETURN(const DeviceMemory memory, DeviceMemory::Make(*device, std::min(bytes, facts.free_bytes / 2)));
  for (const BusDirection direction : {BusDirection::kIn, BusDirection::kOut}) {
    UCP_ASSIGN_OR_RETURN(const BusSpeed speed, MeasureBus(*device, memory.bytes(), direction));
    Speed& line = speeds.emplace_back();
    line.of = fmt::format("copy, pinned memory {} {}", direction == BusDirection::kIn ? "to" : "from", device->name());
    line.bytes = speed.bytes;
    line.seconds = speed.seconds;
  }
  return llvm::Error::success();
}

llvm::Error RunBench(const BenchOptions& options) {
  UCP_ASSIGN_OR_RETURN(ExecutionOptions execution, ExecutionOptionsFrom(options.work));
  std::optional<std::uint64_t> bytes = ParseByteCount(options.size);
  if (!bytes) return Fail(ErrorCode::kUsage, "--size takes a size such as 512MiB or 4GB, not `{}`", options.size);
  SpeedOptions speed;
  speed.bytes = *bytes;
  speed.threads = execution.threads;
  speed.cancelled = execution.cancelled;
  UCP_ASSIGN_OR_RETURN(std::vector<Speed> speeds, MeasureStorage(options.folder, speed));
  speeds.push_back(MeasureMemory(speed));
  UCP_RETURN_IF_ERROR(AddBus(options.device, *bytes, speeds));
  llvm::json::Array measured;
  for (const Speed& one : speeds) {
    if (options.work.json) {
      llvm::json::Object entry{{"of", one.of}, {"bytes", one.bytes}, {"seconds", one.seconds}};
      if (!one.why_not.empty()) entry["why_not"] = one.why_not;
      measured.push_back(std::move(entry));
    } else if (one.why_not.empty()) {
      PrintLine(fmt::format("{:<36} {:>7.2f} GB/s  ({} in {:.2f} s)", one.of, one.bytes_per_second() / 1e9,
                            HumanBytes(one.bytes), one.seconds));
    } else {
      PrintLine(fmt::format("{:<36} {:>12}  ({})", one.of, "-", one.why_not));
    }
  }
  if (options.work.json) {
    PrintJson(llvm::json::Object{
        {"folder", options.folder}, {"threads", execution.threads}, {"measured", std::move(measured)}});
  }
  return llvm::Error::success();
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure the storage of a folder and this machine's memory, to compare a conversion's rate with.");
  command->footer(
      "  ucprun bench /scratch --size 4GB\n"
      "\n"
      "Writes and reads one file without a name, so nothing is left of it; each line takes three seconds at most.");
  command->add_option("DIR", options->folder, "A folder on the storage to measure")->required();
  command
      ->add_option("--size", options->size,
                   "Size of the file; default 512MiB. More than the storage's cache shows "
                   "what lasts")
      ->type_name("SIZE");
  command
      ->add_option("--device", options->device,
                   "A GPU, cuda or cuda:N, to also measure copies between it and pinned memory")
      ->type_name("DEVICE");
  AddThreadsOption(*command, options->work);
  command->add_flag("--json", options->work.json, "The numbers as JSON");
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = RunBench(*options)) exit_code = ShowError("ucprun", std::move(error), options->work.json);
  });
}

}  // namespace ucp
