#include "runtime/python/description.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/describe/request_texts.h"
#include "compiler/open/with_diagnostics.h"
#include "compiler/support/printable.h"
#include "runtime/python/interruptible.h"
#include "runtime/python/values.h"
#include "runtime/saved_state/description.h"

namespace nb = nanobind;

namespace ucp {
namespace {

Description DescribeForPython(const SourceTexts& source, unsigned threads) {
  Description description;
  RunInterruptibly([&](const std::atomic<bool>&) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(SourceRequest request, source.Request());
    OpenedSpec spec;
    request.opened = &spec;
    request.threads = threads;
    llvm::Expected<Description> described = Describe(RealFiles(), request);
    if (described) description = std::move(*described);
    return WithDiagnostics(described.takeError(), spec);
  });
  return description;
}

// (name, second names, shape, states with their dtypes)
using ToldTensor = std::tuple<std::string, std::vector<std::string>, std::vector<std::int64_t>,
                              std::vector<std::pair<std::string, std::string>>>;

std::vector<ToldTensor> TensorsOf(const Description& description) {
  std::vector<ToldTensor> tensors;
  for (std::size_t i = 0; i < description.tensors.size(); ++i) {
    const LogicalTensor& tensor = description.tensors[i];
    std::vector<std::pair<std::string, std::string>> states;
    for (const LogicalTensor::State& state : tensor.states) states.emplace_back(state.name, Name(state.dtype));
    tensors.emplace_back(tensor.name, description.second_names[i], tensor.shape, std::move(states));
  }
  return tensors;
}

// (parameters, step)
std::vector<std::pair<std::vector<std::string>, std::optional<double>>> GroupsOf(const Description& description) {
  std::vector<std::pair<std::vector<std::string>, std::optional<double>>> groups;
  for (const OptimizerGroup& group : description.training.groups) {
    groups.emplace_back(group.parameters, StepOf(description, group));
  }
  return groups;
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

std::vector<std::string> LooseStatesOf(const Description& description) {
  const std::set<std::string> names = LooseStateNames(description);
  return {names.begin(), names.end()};
}

std::string AbsentOptimizer(const Description& description) { return Printable(description.training.absent_optimizer); }

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
      .def_prop_ro("loose_states", &LooseStatesOf)
      .def_prop_ro("absent_optimizer", &AbsentOptimizer)
      .def("hyper_parameters", &MakeHyperParameters, nb::arg("group"), nb::arg("maker"))
      .def("entry", &MakeEntry, nb::arg("entry"), nb::arg("maker"));
  module.def("describe", &DescribeForPython, nb::arg("source"), nb::arg("threads"));
}

}  // namespace ucp
