#include "runtime/python/memory.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "compiler/support/error.h"
#include "runtime/manifest/check_files.h"
#include "runtime/memory_tier/placement.h"
#include "runtime/python/interruptible.h"
#include "runtime/python/raise.h"
#include "runtime/storage/file_system.h"

namespace nb = nanobind;

namespace ucp {
namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20;

// By machine: those that keep its state, itself first.
std::vector<std::vector<std::int64_t>> Keepers(std::int64_t machines, std::int64_t copies,
                                               const std::vector<std::string>& domains) {
  llvm::Expected<Placement> placement = PlaceMachines(machines, copies, domains);
  if (!placement) Raise(placement.takeError());
  std::vector<std::vector<std::int64_t>> keepers(static_cast<std::size_t>(machines));
  for (std::int64_t place = 0; place < machines; ++place) {
    const std::int64_t owner = placement->order[static_cast<std::size_t>(place)];
    for (const std::int64_t keeper : KeepersOf(*placement, place)) {
      keepers[static_cast<std::size_t>(owner)].push_back(placement->order[static_cast<std::size_t>(keeper)]);
    }
  }
  return keepers;
}

// A sentence for each file that is not what its manifest says.
std::vector<std::string> CheckFilesOf(const nb::bytes& folder, unsigned threads) {
  const std::string root(folder.c_str(), folder.size());
  std::vector<std::string> faults;
  RunInterruptibly([&](const std::atomic<bool>& cancelled) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(const std::optional<Manifest> manifest, ReadManifest(RealFiles(), root));
    if (!manifest) {
      faults = {fmt::format("`{}` is missing", kManifestName)};
      return llvm::Error::success();
    }
    UCP_ASSIGN_OR_RETURN(faults, CheckFiles(RealFiles(), root, *manifest, kWindowBytes, {threads, &cancelled}));
    return llvm::Error::success();
  });
  return faults;
}

}  // namespace

void AddMemory(nb::module_& module) {
  module.def("keepers", &Keepers, nb::arg("machines"), nb::arg("copies"), nb::arg("domains"));
  module.def("check_files", &CheckFilesOf, nb::arg("folder"), nb::arg("threads"));
}

}  // namespace ucp
