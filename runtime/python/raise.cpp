#include "runtime/python/raise.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "compiler/diagnostics/render.h"
#include "compiler/driver/terminal.h"
#include "compiler/support/printable.h"

namespace nb = nanobind;

namespace ucp {
namespace {

constexpr const char* kDocumentation =
    "What went wrong, in one sentence. `code` says of which kind: \"usage\", \"spec\", \"bad-data\", \"unsupported\", "
    "\"io\" or \"cancelled\".";

PyObject* error_class = nullptr;  // Lives as long as the process.

// Line by line: the diagnostics of a spec have many.
std::string PrintableLines(std::string_view text) {
  std::string lines;
  while (true) {
    std::size_t end = text.find('\n');
    lines += Printable(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

// What the programs' options are called here.
struct Argument {
  std::string_view option;
  std::string_view name;
};
constexpr Argument kArguments[] = {
    {"--replicas=trust", "verify=False"},
    {"--prefer-rank", "prefer_rank="},
    {"--drop-state", "drop_states="},
    {"--ds-config", "ds_config="},
    {"--config", "config="},
    {"--memory", "memory="},
    {"--threads", "threads="},
    {"--unused", "unused="},
    {"--spec", "spec="},
    {"--rank", "rank="},
    {"--set", "sets="},
};

// The word behind an option, if it is its value: `layers=4`, `'has x=true'`, FILE, and for some whatever it is.
std::string_view ValueBehind(std::string_view text, bool takes_any_word) {
  if (!text.starts_with(' ')) return "";
  text.remove_prefix(1);
  const bool is_quoted = text.starts_with('\'');
  const std::size_t end = is_quoted ? text.find('\'', 1) : text.find_first_of(" ,;:`)");
  const std::string_view word = text.substr(0, is_quoted && end != std::string_view::npos ? end + 1 : end);
  const bool is_placeholder = word.size() > 1 && word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == word.npos;
  const bool is_value = takes_any_word || is_quoted || is_placeholder || word.find('=') != word.npos;
  return is_value ? word : "";
}

// Not a part of a path or of a tensor's name.
bool IsWordAlone(std::string_view before, std::string_view behind) {
  return (before.empty() || std::string_view(" (`\n").find(before.back()) != before.npos) &&
         (behind.empty() || std::string_view(" ,;:.)`\n").find(behind.front()) != behind.npos);
}

// A sentence of the programs in the words of this package: `--set layers=4` is sets="layers=4".
std::string InPython(std::string_view text) {
  std::string said;
  while (!text.empty()) {
    const auto* known = std::find_if(std::begin(kArguments), std::end(kArguments), [&](const Argument& argument) {
      return text.starts_with(argument.option) && IsWordAlone(said, text.substr(argument.option.size()));
    });
    if (known == std::end(kArguments)) {
      said += text.front();
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(known->option.size());
    said += known->name;
    const std::string_view value = ValueBehind(text, known->option == "--drop-state");
    if (value.empty()) continue;
    text.remove_prefix(1 + value.size());
    const bool is_quoted = value.starts_with('\'');
    said += fmt::format("\"{}\"", is_quoted ? value.substr(1, value.size() - 2) : value);
  }
  return said;
}

void SetPythonError(const RaisedFailure& failure) {
  nb::object error =
      nb::steal(PyObject_CallFunction(error_class, "s", InPython(PrintableLines(failure.message)).c_str()));
  if (!error.is_valid()) return;  // Python has raised something else.
  error.attr("code") = CodeName(failure.code);
  PyErr_SetObject(error_class, error.ptr());
}

}  // namespace

void Raise(llvm::Error error) {
  if (!error) return;
  FailureText failure = Describe(std::move(error));
  throw RaisedFailure{failure.code, std::move(failure.message)};
}

llvm::Error WithDiagnostics(llvm::Error error, const SourcePhase& source) {
  if (!error || source.spec == nullptr || !source.spec->sink.has_errors()) return error;
  FailureText failure = Describe(std::move(error));
  return MakeError(failure.code, failure.message + "\n" + RenderText(*source.spec->source, source.spec->sink));
}

void AddErrorClass(nb::module_& module) {
  nb::dict members;
  members["code"] = "";
  error_class = PyErr_NewExceptionWithDoc("ucp.Error", kDocumentation, PyExc_Exception, members.ptr());
  module.attr("Error") = nb::borrow(error_class);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const RaisedFailure& failure) {
      SetPythonError(failure);
    }
  });
}

}  // namespace ucp
