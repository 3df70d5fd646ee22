#include "runtime/python/load.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>

#include "compiler/describe/request_texts.h"
#include "compiler/open/with_diagnostics.h"
#include "compiler/support/printable.h"
#include "runtime/load/load.h"
#include "runtime/load/opened_devices.h"
#include "runtime/load_plan/compile_for_job.h"
#include "runtime/load_plan/load_plan.h"
#include "runtime/load_plan/rank_states.h"
#include "runtime/python/interruptible.h"
#include "runtime/python/paths.h"
#include "runtime/python/raise.h"
#include "runtime/python/ranks.h"
#include "runtime/storage/open_file_limit.h"

namespace nb = nanobind;

namespace ucp {
namespace {

Communicator& RanksOrOne(PythonRanks* ranks) {
  if (ranks == nullptr) return SingleProcess();
  return *ranks;
}

llvm::Expected<SourceRequest> RequestOfAll(const SourceTexts& source, Communicator& ranks) {
  llvm::Expected<SourceRequest> request = source.Request();
  UCP_RETURN_IF_ERROR(Agree(ranks, request ? llvm::Error::success() : request.takeError()));
  return request;
}

ReplicaPolicy PolicyOf(bool compare) { return compare ? ReplicaPolicy::kCompare : ReplicaPolicy::kTrust; }

LoadPlan CompileForPython(const SourceTexts& source, const std::string& target, const TargetSettings& options,
                          bool compare, PythonRanks* ranks, const std::vector<std::string>& opens, bool check,
                          unsigned threads) {
  LoadRequest request;
  request.compile.target = target;
  request.compile.replicas = PolicyOf(compare);
  request.compile.threads = threads;
  request.opens = opens;
  request.is_checked = check;
  request.compile.settings = options;
  LoadPlan load;
  RunInterruptibly([&](const std::atomic<bool>&) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(request.compile.source, RequestOfAll(source, RanksOrOne(ranks)));
    OpenedSpec spec;
    request.compile.source.opened = &spec;
    llvm::Expected<LoadPlan> made = CompileLoad(RealFileSystem(), request, RanksOrOne(ranks));
    if (made) load = std::move(*made);
    return WithDiagnostics(made.takeError(), spec);
  });
  return load;
}

// (tensor, state, dtype, whole shape, for each dimension the positions [begin, end) that are held; none: all, and the
// tensor's second names)
using JobTensorFromPython = std::tuple<std::string, std::string, std::string, std::vector<std::int64_t>,
                                       std::optional<std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>>>,
                                       std::vector<std::string>>;

llvm::Expected<JobTensor> FromPython(const JobTensorFromPython& from) {
  const auto& [tensor, state, dtype_name, shape, holds, second_names] = from;
  std::optional<DType> dtype = DTypeFromName(dtype_name);
  if (!dtype) {
    return Fail(ErrorCode::kUsage, "tensor `{}` has numbers of the unknown kind {}", tensor, dtype_name);
  }
  JobTensor held{tensor, state, *dtype, shape, {}, second_names};
  if (!holds) {
    held.holds = WholeBox(shape);
    return held;
  }
  for (const auto& positions : *holds) {
    Positions& of_dim = held.holds.emplace_back();
    for (const auto& [begin, end] : positions) of_dim.push_back({begin, end});
  }
  return held;
}

JobLoadPlan CompileForJobFromPython(const SourceTexts& source, const std::vector<JobTensorFromPython>& held,
                                    bool all_tensors, const std::vector<std::string>& kept, bool compare,
                                    PythonRanks* ranks, unsigned threads, bool parts, const nb::bytes& folder,
                                    const std::string& layout) {
  JobLoadRequest request{{}, PolicyOf(compare), all_tensors, threads, kept, layout};
  if (parts) request.parts = JobTensorParts::kSome;
  JobTensorsOfRank mine;
  auto convert = [&]() -> llvm::Error {
    for (const JobTensorFromPython& from : held) {
      UCP_ASSIGN_OR_RETURN(JobTensor tensor, FromPython(from));
      mine.push_back(std::move(tensor));
    }
    return llvm::Error::success();
  };
  JobLoadPlan plan;
  RunInterruptibly([&](const std::atomic<bool>&) -> llvm::Error {
    UCP_RETURN_IF_ERROR(Agree(RanksOrOne(ranks), convert()));
    UCP_ASSIGN_OR_RETURN(request.source, RequestOfAll(source, RanksOrOne(ranks)));
    OpenedSpec spec;
    request.source.opened = &spec;
    llvm::Expected<JobLoadPlan> made = CompileForJob(RealFileSystem(), request, mine, RanksOrOne(ranks));
    if (made) plan = std::move(*made);
    return WithDiagnostics(made.takeError(), spec);
  });
  if (folder.size() > 0) plan.load.source_folder.assign(folder.c_str(), folder.size());
  return plan;
}

// (record, address, bytes)
using WantedFromPython = std::tuple<std::size_t, std::uintptr_t, std::size_t>;

llvm::Error OpenFor(std::vector<WantedRecord>& wanted, const std::map<std::size_t, std::string>& names,
                    OpenedDevices& devices) {
  for (WantedRecord& record : wanted) {
    const auto name = names.find(record.record.index());
    if (name == names.end()) continue;
    UCP_ASSIGN_OR_RETURN(record.device, devices.Open(name->second));
  }
  return llvm::Error::success();
}

nb::dict DictOf(const LoadReport& report) {
  nb::dict told;
  told["bytes_placed"] = report.bytes_placed;
  told["bytes_read"] = report.bytes_read;
  told["bytes_received"] = report.bytes_received;
  told["bytes_from_gpus"] = report.bytes_from_peers;
  if (!report.why_by_hosts.empty()) told["why_by_hosts"] = Printable(report.why_by_hosts);
  told["bytes_read_by_all"] = report.bytes_read_by_all;
  told["as_stored"] = report.is_as_stored;
  told["seconds"] = report.seconds;
  told["threads"] = report.threads;
  told["bytes_to_devices"] = report.bytes_to_devices;
  told["transfers"] = report.transfers;
  nb::dict mismatches;
  for (const RoundingMismatch& mismatch : report.rounding_mismatches) {
    mismatches[mismatch.tensor.c_str()] = mismatch.first;
  }
  told["rounding_mismatches"] = mismatches;
  return told;
}

nb::dict LoadForPython(const LoadPlan& plan, const std::vector<WantedFromPython>& memory, unsigned threads,
                       std::uint64_t memory_bytes, bool check, PythonRanks* ranks,
                       const std::map<std::size_t, std::string>& devices, std::uint64_t device_memory_bytes) {
  std::vector<WantedRecord> wanted;
  for (const auto& [record, address, bytes] : memory) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses as numbers.
    wanted.push_back({RecordId(record), {reinterpret_cast<std::byte*>(address), bytes}});
  }
  OpenedDevices opened;
  LoadOptions options;
  options.device_memory_bytes = device_memory_bytes;
  options.threads = threads;
  options.memory_bytes = memory_bytes;
  options.check_source = check;
  options.ranks = ranks;
  LoadReport report;
  RunInterruptibly([&](const std::atomic<bool>& cancelled) -> llvm::Error {
    options.cancelled = &cancelled;
    auto prepare = [&]() -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(options.open_files, DivideOpenFiles(OpenFileLimit(), threads));
      return OpenFor(wanted, devices, opened);
    };
    UCP_RETURN_IF_ERROR(Agree(RanksOrOne(ranks), prepare()));
    UCP_ASSIGN_OR_RETURN(report, Load(plan, RealFileSystem(), wanted, options));
    return llvm::Error::success();
  });
  return DictOf(report);
}

std::vector<std::tuple<std::size_t, std::size_t, std::uint64_t, std::uint64_t>> RecordsOf(const LoadPlan& load,
                                                                                          int rank) {
  std::vector<std::tuple<std::size_t, std::size_t, std::uint64_t, std::uint64_t>> records;
  for (RecordId id : load.RecordsOf(rank)) {
    const Record& record = load.plan.target.record(id);
    records.emplace_back(id.index(), record.file.index(), record.begin, record.bytes);
  }
  return records;
}

std::vector<std::tuple<std::size_t, std::string, std::uint64_t>> FilesOf(const LoadPlan& load, int rank) {
  std::vector<std::tuple<std::size_t, std::string, std::uint64_t>> files;
  for (FileId id : load.FilesOf(rank)) {
    const StoredFile& file = load.plan.target.files[id.index()];
    files.emplace_back(id.index(), file.path, file.bytes);
  }
  return files;
}

std::vector<std::tuple<std::uint64_t, nb::bytes>> BlobsOf(const LoadPlan& load, std::size_t file) {
  std::vector<std::tuple<std::uint64_t, nb::bytes>> blobs;
  for (const BlobPlacement& placement : load.plan.placements) {
    if (placement.file.index() != file) continue;
    const std::string& content = load.plan.blobs[placement.blob.index()];
    blobs.emplace_back(placement.offset, nb::bytes(content.data(), content.size()));
  }
  return blobs;
}

std::vector<std::map<std::string, std::string>> LeftOutOf(const LoadPlan& load) {
  std::vector<std::map<std::string, std::string>> all;
  for (const LeftOut& one : load.plan.left_out) {
    all.push_back({{"file", Printable(one.file)}, {"path", one.path}, {"object", one.object}, {"calls", one.calls}});
  }
  return all;
}

void AddStateClasses(nb::module_& module) {
  nb::class_<StatePiece>(module, "Piece")
      .def_prop_ro("record", [](const StatePiece& piece) { return piece.record.index(); })
      .def_ro("place", &StatePiece::place)
      .def_ro("begin", &StatePiece::begin)
      .def_ro("end", &StatePiece::end);
  nb::class_<PlacedState>(module, "State")
      .def_ro("tensor", &PlacedState::tensor)
      .def_ro("state", &PlacedState::state)
      .def_prop_ro("dtype", [](const PlacedState& state) { return std::string(Name(state.dtype)); })
      .def_prop_ro("item_bytes", [](const PlacedState& state) { return ItemBytes(state.dtype); })
      .def_ro("shape", &PlacedState::shape)
      .def_prop_ro("coordinate",
                   [](const PlacedState& state) {
                     nb::dict coordinate;
                     for (const auto& [axis, place] : state.coordinate.at) coordinate[axis.c_str()] = place;
                     return coordinate;
                   })
      .def_ro("pieces", &PlacedState::pieces);
}

void AddPlanClasses(nb::module_& module) {
  nb::class_<LoadPlan>(module, "LoadPlan")
      .def_prop_ro("ranks", [](const LoadPlan& load) { return load.readers.ranks; })
      .def_ro("rank", &LoadPlan::rank)
      .def_prop_ro("remarks",
                   [](const LoadPlan& load) {
                     std::vector<std::string> remarks;
                     for (const std::string& remark : load.plan.remarks) remarks.push_back(Printable(remark));
                     return remarks;
                   })
      .def_prop_ro("left_out", &LeftOutOf)
      .def_prop_ro("source_folder",
                   [](const LoadPlan& load) {
                     const std::string& path = load.source_folder;
                     const auto bytes = static_cast<Py_ssize_t>(path.size());
                     return nb::steal<nb::str>(PyUnicode_DecodeFSDefaultAndSize(path.data(), bytes));
                   })
      .def("files_of", &FilesOf)
      .def("records_of", &RecordsOf)
      .def("states_of", &StatesOf)
      .def("blobs_of", &BlobsOf);
}

void AddJobLoadPlanClass(nb::module_& module) {
  nb::class_<JobLoadPlan>(module, "JobLoadPlan")
      .def_prop_ro(
          "load", [](const JobLoadPlan& held) -> const LoadPlan& { return held.load; },
          nb::rv_policy::reference_internal)
      .def_prop_ro("records",
                   [](const JobLoadPlan& held) {
                     std::vector<std::optional<std::size_t>> records;
                     for (const auto& record : held.records) {
                       records.push_back(record ? std::optional(record->index()) : std::nullopt);
                     }
                     return records;
                   })
      .def_ro("step", &JobLoadPlan::step)
      .def_prop_ro("not_loaded", [](const JobLoadPlan& held) {
        nb::dict states;
        for (const NotLoaded& entry : held.not_loaded) states[entry.tensor.c_str()] = nb::cast(entry.states);
        return states;
      });
}

}  // namespace

void AddLoad(nb::module_& module) {
  nb::class_<TargetSettings>(module, "Target")
      .def(nb::init<>())
      .def_rw("tag", &TargetSettings::tag)
      .def_rw("keep_opaque", &TargetSettings::keep_opaque)
      .def_prop_rw("ds_config", PathText<&TargetSettings::job_config>, SetPath<&TargetSettings::job_config>);
  AddStateClasses(module);
  AddPlanClasses(module);
  AddJobLoadPlanClass(module);
  module.def("compile_load", &CompileForPython, nb::arg("source"), nb::arg("to"), nb::arg("target"), nb::arg("compare"),
             nb::arg("ranks").none(), nb::arg("opens"), nb::arg("check"), nb::arg("threads"));
  module.def("compile_held", &CompileForJobFromPython, nb::arg("source"), nb::arg("held"), nb::arg("all_tensors"),
             nb::arg("kept"), nb::arg("compare"), nb::arg("ranks").none(), nb::arg("threads"), nb::arg("parts") = false,
             nb::arg("folder") = nb::bytes("", 0), nb::arg("layout") = "");
  module.def("load", &LoadForPython, nb::arg("plan"), nb::arg("memory"), nb::arg("threads"), nb::arg("memory_bytes"),
             nb::arg("check"), nb::arg("ranks").none(), nb::arg("devices") = std::map<std::size_t, std::string>(),
             nb::arg("device_memory_bytes") = LoadOptions().device_memory_bytes);
}

}  // namespace ucp
