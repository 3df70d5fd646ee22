#include "runtime/python/ranks.h"

#include "compiler/support/error.h"

namespace nb = nanobind;

namespace ucp {
namespace {

llvm::Error ErrorOf(const nb::python_error& raised) {
  return Fail(ErrorCode::kIo, "{}", nb::str(raised.value()).c_str());
}

nb::object ViewOf(std::span<const std::byte> bytes, int access) {
  auto* data = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));
  return nb::steal(PyMemoryView_FromMemory(data, static_cast<Py_ssize_t>(bytes.size()), access));
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

// Bytes for several ranks are one object.
llvm::Error PythonRanks::Deliver(std::span<const Outgoing> sending, std::span<const Incoming> receiving) {
  if (sending.empty() && receiving.empty()) return llvm::Error::success();
  nb::gil_scoped_acquire lock;
  try {
    nb::list sent;
    nb::list received;
    nb::object view;
    for (std::size_t i = 0; i < sending.size(); ++i) {
      const std::span<const std::byte> bytes = sending[i].bytes;
      if (i == 0 || bytes.data() != sending[i - 1].bytes.data()) view = ViewOf(bytes, PyBUF_READ);
      sent.append(nb::make_tuple(sending[i].to, view));
    }
    for (const Incoming& one : receiving) received.append(nb::make_tuple(one.from, ViewOf(one.bytes, PyBUF_WRITE)));
    deliver_(sent, received);
    return llvm::Error::success();
  } catch (const nb::python_error& raised) {
    return ErrorOf(raised);
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
      .def(nb::init<int, int, nb::callable, nb::callable, nb::callable>())
      .def_prop_ro("rank", &PythonRanks::rank)
      .def_prop_ro("size", &PythonRanks::size)
      .def_prop_ro("is_asked_to_stop", &PythonRanks::IsAskedToStop)
      .def("stop", &PythonRanks::Stop);
}

}  // namespace ucp
