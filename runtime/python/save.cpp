#include "runtime/python/save.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "runtime/comm/machine_socket.h"
#include "runtime/comm/nodes.h"
#include "runtime/python/interruptible.h"
#include "runtime/python/raise.h"
#include "runtime/python/ranks.h"
#include "runtime/save/find_machines.h"
#include "runtime/save/save_client.h"

namespace nb = nanobind;

namespace ucp {
namespace {

using Numbers = std::vector<std::int64_t>;
// (key, path, dtype or None of a value, shape, [(offsets, sizes)])
using EntryFromPython = std::tuple<std::string, std::vector<std::variant<std::string, std::int64_t>>,
                                   std::optional<std::string>, Numbers, std::vector<std::pair<Numbers, Numbers>>>;
// By entry and box: (address, bytes of an element, sizes, strides in elements); address 0: the caller stages it.
using MemoryFromPython = std::vector<std::vector<std::tuple<std::uintptr_t, std::int64_t, Numbers, Numbers>>>;

HeldState StateFrom(const std::vector<EntryFromPython>& entries) {
  HeldState state;
  for (const auto& [key, path, dtype, shape, boxes] : entries) {
    HeldEntry entry;
    entry.key = key;
    entry.path = path;
    entry.is_tensor = dtype.has_value();
    if (dtype) {
      const std::optional<DType> known = DTypeFromName(*dtype);
      if (!known) {
        throw RaisedFailure{ErrorCode::kUnsupported,
                            fmt::format("`{}` has numbers of the unknown kind {}", key, *dtype)};
      }
      entry.dtype = *known;
    }
    entry.shape = shape;
    for (const auto& [offsets, sizes] : boxes) {
      entry.boxes.push_back({{offsets.begin(), offsets.end()}, {sizes.begin(), sizes.end()}});
    }
    state.push_back(std::move(entry));
  }
  return state;
}

BoxMemories MemoriesFrom(const MemoryFromPython& given) {
  BoxMemories memories;
  for (const auto& of_entry : given) {
    std::vector<BoxMemory>& boxes = memories.emplace_back();
    for (const auto& [address, item_bytes, sizes, strides] : of_entry) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses as numbers.
      boxes.push_back({reinterpret_cast<const std::byte*>(address), item_bytes, sizes, strides});
    }
  }
  return memories;
}

std::unique_ptr<MachineListener> ListenForPython() {
  llvm::Expected<MachineListener> listener = ListenToMachines();
  Raise(listener.takeError());
  return std::make_unique<MachineListener>(std::move(*listener));
}

std::string TextFrom(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// (this machine, its ranks, the lowest of them, addresses by machine, secret)
using MachinesFromPython = std::tuple<int, int, int, std::vector<std::string>, nb::bytes>;

// Its problem is why this rank cannot take part; empty: it does.
std::unique_ptr<SaveClient> OpenAtForPython(const std::string& address, int rank, int ranks,
                                            const std::optional<MachinesFromPython>& machines,
                                            const MachineListener* listener, const nb::bytes& program,
                                            const SaverSettings& settings, const std::vector<EntryFromPython>& state,
                                            const MemoryFromPython& memory, const nb::bytes& values,
                                            const std::string& problem) {
  JoinMessage join;
  join.rank = rank;
  join.ranks = ranks;
  join.settings = settings;
  join.state = StateFrom(state);
  join.values = TextFrom(values);
  join.problem = problem;
  MeetingPlace place{address};
  if (machines) {
    const auto& [machine, ranks_here, lowest, addresses, secret] = *machines;
    join.machines = {machine, ranks_here, addresses, TextFrom(secret)};
    place.lowest_rank = lowest;
    if (listener != nullptr) place.listener = listener->socket.number();
  }
  std::unique_ptr<SaveClient> client;
  RunInterruptibly([&, path = TextFrom(program)](const std::atomic<bool>&) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(client,
                         SaveClient::OpenAt(place, path, std::move(join), MemoriesFrom(memory), settings.threads));
    return llvm::Error::success();
  });
  return client;
}

std::unique_ptr<SaveClient> OpenForPython(PythonRanks* ranks, const nb::bytes& program, const SaverSettings& settings,
                                          const std::vector<EntryFromPython>& state, const MemoryFromPython& memory,
                                          const nb::bytes& values, unsigned threads) {
  JoinMessage join;
  join.settings = settings;
  join.state = StateFrom(state);
  join.values = TextFrom(values);
  std::unique_ptr<SaveClient> client;
  RunInterruptibly([&, path = TextFrom(program)](const std::atomic<bool>&) -> llvm::Error {
    Communicator& group = ranks == nullptr ? SingleProcess() : *ranks;
    UCP_ASSIGN_OR_RETURN(client, SaveClient::Open(group, path, std::move(join), MemoriesFrom(memory), threads));
    return llvm::Error::success();
  });
  return client;
}

std::uint64_t BeginForPython(SaveClient& client, const nb::bytes& path, const std::string& tag, bool force,
                             const nb::bytes& values, const std::string& problem,
                             const std::optional<std::vector<EntryFromPython>>& state,
                             const std::optional<MemoryFromPython>& memory) {
  SaveCall call;
  call.path = TextFrom(path);
  call.tag = tag;
  call.force = force;
  call.values = TextFrom(values);
  call.problem = problem;
  if (state) call.state = StateFrom(*state);
  if (memory) call.memories = MemoriesFrom(*memory);
  return client.Begin(std::move(call));
}

template <typename Wait>
bool WaitUnlocked(const Wait& wait) {
  llvm::Expected<bool> reached = false;
  {
    nb::gil_scoped_release unlocked;
    reached = wait();
  }
  Raise(reached.takeError());
  return *reached;
}

bool WaitForPython(SaveClient& client, std::uint64_t number, int step, double seconds) {
  return WaitUnlocked([&] { return client.WaitFor(number, static_cast<SaveStep>(step), seconds); });
}

bool WaitForWaveForPython(SaveClient& client, std::uint64_t number, std::uint64_t wave, double seconds) {
  return WaitUnlocked([&] { return client.WaitForWave(number, wave, seconds); });
}

nb::tuple LayoutForPython(const SaveClient& client) {
  const LaidOutMessage layout = client.layout();
  nb::list boxes;
  const std::uint64_t room = client.room() * layout.segment_bytes;
  for (const StagedBox& box : layout.boxes) {
    boxes.append(nb::make_tuple(box.entry, box.box, room + layout.waves.PlaceOf(box.offset), box.bytes,
                                layout.waves.WaveOf(box.offset)));
  }
  return nb::make_tuple(boxes, nb::cast(layout.values), layout.waves.count, layout.plan, layout.holds_all);
}

void AddSettings(nb::module_& module) {
  nb::class_<SaverSettings>(module, "SaverSettings")
      .def(nb::init<>())
      .def_prop_rw(
          "to", [](const SaverSettings& settings) { return settings.request.target; },
          [](SaverSettings& settings, std::string to) { settings.request.target = std::move(to); })
      .def_prop_rw(
          "source", [](const SaverSettings& settings) { return settings.request.source; },
          [](SaverSettings& settings, SourceTexts source) { settings.request.source = std::move(source); })
      .def_prop_rw(
          "target", [](const SaverSettings& settings) { return settings.request.settings; },
          [](SaverSettings& settings, TargetSettings target) { settings.request.settings = std::move(target); })
      .def_rw("threads", &SaverSettings::threads)
      .def_rw("memory_bytes", &SaverSettings::memory_bytes)
      .def_rw("keep", &SaverSettings::keep)
      .def_rw("timeout_seconds", &SaverSettings::timeout_seconds)
      .def_rw("nice", &SaverSettings::nice)
      .def_rw("reads_memory", &SaverSettings::reads_memory)
      .def_rw("verifies_replicas", &SaverSettings::verifies_replicas)
      .def_rw("rooms", &SaverSettings::rooms)
      .def_rw("staging_bytes", &SaverSettings::staging_bytes)
      .def_rw("part", &SaverSettings::part)
      .def_rw("node_local", &SaverSettings::node_local)
      .def_prop_rw(
          "lock_file",
          [](const SaverSettings& settings) { return nb::bytes(settings.lock_file.data(), settings.lock_file.size()); },
          [](SaverSettings& settings, const nb::bytes& path) { settings.lock_file = TextFrom(path); })
      .def_rw("finishes_orphans", &SaverSettings::finishes_orphans);
}

}  // namespace

void AddSave(nb::module_& module) {
  AddSettings(module);
  module.def("name_of_this_machine", &NameOfThisMachine);
  module.def("name_of_this_system", &ThisMachine);
  nb::class_<MachineListener>(module, "MachineListener")
      .def_static("open", &ListenForPython)
      .def_ro("address", &MachineListener::address);
  nb::class_<SaveClient>(module, "SaveClient")
      .def_static("open", &OpenForPython, nb::arg("ranks").none(), nb::arg("program"), nb::arg("settings"),
                  nb::arg("state"), nb::arg("memory"), nb::arg("values"), nb::arg("threads"))
      .def_static("open_at", &OpenAtForPython, nb::arg("address"), nb::arg("rank"), nb::arg("ranks"),
                  nb::arg("machines").none(), nb::arg("listener").none(), nb::arg("program"), nb::arg("settings"),
                  nb::arg("state"), nb::arg("memory"), nb::arg("values"), nb::arg("problem"))
      .def("begin", &BeginForPython, nb::arg("path"), nb::arg("tag"), nb::arg("force"), nb::arg("values"),
           nb::arg("problem"), nb::arg("state").none(), nb::arg("memory").none())
      .def("wait", &WaitForPython, nb::arg("number"), nb::arg("step"), nb::arg("seconds"))
      .def("wait_for_wave", &WaitForWaveForPython, nb::arg("number"), nb::arg("wave"), nb::arg("seconds"))
      .def("report", &SaveClient::ReportOf, nb::arg("number"))
      .def("finish_staging", &SaveClient::FinishStaging, nb::arg("number"), nb::arg("problem") = "")
      .def("layout", &LayoutForPython)
      .def("segment",
           [](const SaveClient& client) {
             const std::span<std::byte> memory = client.segment();
             return nb::make_tuple(reinterpret_cast<std::uintptr_t>(memory.data()), memory.size());
           })
      .def("close", &SaveClient::Close, nb::call_guard<nb::gil_scoped_release>())
      .def("close_and_wait", &SaveClient::CloseAndWait, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace ucp
