#include "runtime/python/description.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/catalogue/with_diagnostics.h"
#include "compiler/compile/bound_source.h"
#include "compiler/compile/request_texts.h"
#include "compiler/formats/pytorch/value_access.h"
#include "compiler/formats/training_state.h"
#include "compiler/planner/join.h"
#include "compiler/support/printable.h"
#include "runtime/manifest/part_of_checkpoint.h"
#include "runtime/python/interruptible.h"
#include "runtime/python/values.h"

namespace nb = nanobind;

namespace ucp {
namespace {

// An entry that the training script, its engine or its module saved. Its key is a text.
struct SavedEntry {
  std::string name;
  bool is_of_module = false;
  pytorch::ValuePtr value;
};

struct Description {
  std::vector<LogicalTensor> tensors;
  std::vector<std::vector<std::string>> second_names;  // Of each.
  TrainingState training;
  std::vector<SavedEntry> entries;
};

void AddEntries(const std::vector<pytorch::Entry>& from, bool is_of_module, std::vector<SavedEntry>& entries) {
  for (const pytorch::Entry& entry : from) {
    if (const auto name = pytorch::AsText(*entry.key)) {
      entries.push_back({std::string(*name), is_of_module, entry.value});
    }
  }
}

// The script's own, and of the engine's those that other frameworks have too. What a module saves beside its tensors is
// of one rank, and nothing says how several would go together.
std::vector<SavedEntry> EntriesOf(const TrainingState& training) {
  std::vector<SavedEntry> entries;
  AddEntries(training.ranks[training.counting_rank].client, false, entries);
  if (pytorch::ValuePtr scheduler = FindEntry(training.engine, "lr_scheduler")) {
    entries.push_back({"lr_scheduler", false, std::move(scheduler)});
  }
  if (training.ranks.size() == 1) AddEntries(training.ranks.front().module_extras, true, entries);
  return entries;
}

Description DescribeForPython(const SourceTexts& source, unsigned threads) {
  Description description;
  RunInterruptibly([&](const std::atomic<bool>&) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(SourceRequest request, source.Request());
    OpenedSpec spec;
    request.opened = &spec;
    request.threads = threads;
    UCP_RETURN_IF_ERROR(CheckIsWhole(RealFiles(), request.path));
    llvm::Expected<BoundSource> bound = DescribeAndBind(RealFiles(), request);
    if (!bound) return WithDiagnostics(bound.takeError(), spec);
    UCP_ASSIGN_OR_RETURN(description.tensors, JoinTensors(bound->layout, bound->checkpoint.inventory));
    for (const LogicalTensor& tensor : description.tensors) {
      description.second_names.push_back(bound->layout.Find(tensor.name)->aliases);
    }
    description.training = std::move(bound->checkpoint.training);
    description.entries = EntriesOf(description.training);
    return llvm::Error::success();
  });
  return description;
}

// (name, second names, shape, states with their dtypes)
using ToldTensor = std::tuple<std::string, std::vector<std::string>, std::vector<std::int64_t>,
                              std::vector<std::pair<std::string, std::string>>>;

std::vector<ToldTensor> TensorsOf(const Description& description) {
  std::vector<ToldTensor> told;
  for (std::size_t i = 0; i < description.tensors.size(); ++i) {
    const LogicalTensor& tensor = description.tensors[i];
    std::vector<std::pair<std::string, std::string>> states;
    for (const LogicalTensor::State& state : tensor.states) states.emplace_back(state.name, Name(state.dtype));
    told.emplace_back(tensor.name, description.second_names[i], tensor.shape, std::move(states));
  }
  return told;
}

// (parameters, step)
std::vector<std::pair<std::vector<std::string>, std::optional<double>>> GroupsOf(const Description& description) {
  std::vector<std::pair<std::vector<std::string>, std::optional<double>>> told;
  for (const OptimizerGroup& group : description.training.groups) {
    told.emplace_back(group.parameters,
                      group.step == nullptr ? std::nullopt : StepNumber(description.training, *group.step));
  }
  return told;
}

std::vector<nb::bytes> StoragesOf(const Description& description) {
  std::vector<nb::bytes> storages;
  for (const SmallTensorData& data : description.training.small_tensors) {
    storages.emplace_back(data.bytes.data(), data.bytes.size());
  }
  return storages;
}

std::vector<std::pair<std::string, bool>> NamesOfEntries(const Description& description) {
  std::vector<std::pair<std::string, bool>> names;
  for (const SavedEntry& entry : description.entries) names.emplace_back(entry.name, entry.is_of_module);
  return names;
}

nb::object MakeHyperParameters(const Description& description, std::size_t group, const nb::object& maker) {
  return MakeValue(description.training.groups.at(group).hyper_parameters, maker);
}

nb::object MakeEntry(const Description& description, std::size_t entry, const nb::object& maker) {
  return MakeValue(description.entries.at(entry).value, maker);
}

}  // namespace

void AddDescription(nb::module_& module) {
  nb::class_<Description>(module, "Description")
      .def_prop_ro("tensors", &TensorsOf)
      .def_prop_ro("groups", &GroupsOf)
      .def_prop_ro("storages", &StoragesOf)
      .def_prop_ro("entries", &NamesOfEntries)
      .def_prop_ro("absent_optimizer",
                   [](const Description& told) { return Printable(told.training.absent_optimizer); })
      .def("hyper_parameters", &MakeHyperParameters, nb::arg("group"), nb::arg("maker"))
      .def("entry", &MakeEntry, nb::arg("entry"), nb::arg("maker"));
  module.def("describe", &DescribeForPython, nb::arg("source"), nb::arg("threads"));
}

}  // namespace ucp
