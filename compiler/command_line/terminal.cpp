#include "compiler/command_line/terminal.h"

#include <fmt/format.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "compiler/diagnostics/render.h"
#include "compiler/support/error.h"
#include "compiler/support/printable.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

// Somebody has been told that standard output takes nothing any more.
bool output_is_lost = false;

llvm::Error OutputIsLost(const std::string& why) {
  output_is_lost = true;
  return Fail(ErrorCode::kIo, "cannot write to standard output: {}", why);
}

}  // namespace

const char* CodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kSpec:
      return "spec";
    case ErrorCode::kBadData:
      return "bad-data";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kMemory:
      return "memory";
    case ErrorCode::kCancelled:
      return "cancelled";
  }
  return "";
}

void ShowDiagnostics(const SpecSession& session, bool json) {
  if (json && session.sink.has_errors()) return;
  TextStyle style{ErrorsGoToTerminal(), ErrorsGoToTerminal() ? TerminalColumns() : 120};
  std::string text = RenderText(*session.source, session.sink, style);
  std::fputs(text.c_str(), stderr);
}

int ShowError(const std::string& program, llvm::Error error, bool json) {
  llvm::json::Object report;
  error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<SpecFailure> failure) -> llvm::Error {
    report = failure->diagnostics();
    return llvm::Error(std::move(failure));
  });
  FailureText failure = Describe(std::move(error));
  if (json) {
    report["error"] = llvm::json::Object{{"code", CodeName(failure.code)}, {"message", failure.message}};
    PrintJson(std::move(report));
  }
  std::fflush(stdout);
  ShowMessage(program + ": error: " + failure.message);
  return ExitCode(failure.code);
}

void ShowMessage(const std::string& message) { std::fputs((Printable(message) + "\n").c_str(), stderr); }

bool PrintLine(const std::string& line) { return std::fputs((Printable(line) + "\n").c_str(), stdout) >= 0; }

void PrintJson(llvm::json::Value value) {
  if (output_is_lost) return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", value);
  stream << "\n";
  std::fputs(stream.str().c_str(), stdout);
}

llvm::Error PrintJsonBy(llvm::function_ref<void(llvm::json::OStream&)> write) {
  return PrintBy([&](llvm::raw_ostream& out) {
    llvm::json::OStream json(out, 2);
    write(json);
    json.flush();
    out << "\n";
  });
}

void PrintVerbatim(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

llvm::Error PrintBy(llvm::function_ref<void(llvm::raw_ostream&)> write) {
  UCP_RETURN_IF_ERROR(FlushOutput());
  llvm::raw_fd_ostream out(STDOUT_FILENO, /*shouldClose=*/false);
  write(out);
  out.flush();
  std::error_code error = out.error();
  out.clear_error();  // The stream would end the program otherwise.
  if (!error || error == std::errc::broken_pipe) return llvm::Error::success();
  return OutputIsLost(SystemReason(error));
}

llvm::Error FlushOutput() {
  if (output_is_lost || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return llvm::Error::success();
  if (errno == EPIPE) return llvm::Error::success();  // The reader has seen enough.
  return OutputIsLost(SystemReason(errno));
}

bool ErrorsGoToTerminal() { return isatty(STDERR_FILENO) == 1; }

std::size_t TerminalColumns() {
  winsize size{};
  constexpr std::size_t kLeast = 20;
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::max<std::size_t>(size.ws_col, kLeast) : 80;
}

}  // namespace ucp
