#include "runtime/python/ranks.h"

#include "compiler/support/error.h"

namespace nb = nanobind;

namespace ucp {
namespace {

llvm::Error ErrorOf(const nb::python_error& raised) {
  return Fail(ErrorCode::kIo, "{}", nb::str(raised.value()).c_str());
}

}  // namespace

llvm::Expected<std::vector<std::string>> PythonRanks::AllGather(const std::string& mine) {
  nb::gil_scoped_acquire lock;
  try {
    std::vector<std::string> all;
    for (nb::handle entry : all_gather_(nb::bytes(mine.data(), mine.size()))) {
      auto bytes = nb::cast<nb::bytes>(entry);
      all.emplace_back(bytes.c_str(), bytes.size());
    }
    if (all.size() == static_cast<std::size_t>(size_)) return all;
    return Fail(ErrorCode::kUsage, "all_gather() returned {} values for {} ranks", all.size(), size_);
  } catch (const nb::python_error& raised) {
    return ErrorOf(raised);
  } catch (const nb::cast_error&) {
    return Fail(ErrorCode::kUsage, "all_gather() returned values that are not bytes");
  }
}

// Should it fail, others only go on for longer.
void PythonRanks::AskToStop() {
  nb::gil_scoped_acquire lock;
  try {
    ask_to_stop_();
  } catch (const nb::python_error& raised) {
    llvm::consumeError(ErrorOf(raised));
  }
}

void AddRanksClass(nb::module_& module) {
  nb::class_<PythonRanks>(module, "Ranks")
      .def(nb::init<int, int, nb::callable, nb::callable>())
      .def_prop_ro("rank", &PythonRanks::rank)
      .def_prop_ro("size", &PythonRanks::size)
      .def_prop_ro("is_asked_to_stop", &PythonRanks::IsAskedToStop)
      .def("stop", &PythonRanks::Stop);
}

}  // namespace ucp
