#include "compiler/command_line/terminal.h"

#include <fmt/format.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "compiler/diagnostics/render.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "compiler/support/printable.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

// Somebody has been told that standard output takes nothing any more.
bool output_is_lost = false;

Speech speech;

llvm::Error OutputIsLost(const std::string& why) {
  output_is_lost = true;
  return Fail(ErrorCode::kIo, "cannot write to standard output: {}", why);
}

// As https://no-color.org has it: any text counts.
bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

TextStyle StyleOfErrors() {
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const bool by_itself = ErrorsGoToTerminal() && !IsSet("NO_COLOR");
  TextStyle style;
  style.colours = speech.colour == ColourUse::kAlways || (speech.colour == ColourUse::kAuto && by_itself);
  if (is_terminal) style.columns = TerminalColumns();
  return style;
}

// "ucpc: note: ", "warning: ": what a message begins with is painted.
std::string WithPaintedWord(const std::string& message) {
  const TextStyle style = StyleOfErrors();
  if (!style.colours) return message;
  for (std::string_view begin : {"", "ucpc: ", "ucprun: "}) {
    if (!message.starts_with(begin)) continue;
    for (std::string_view word : {"error:", "warning:", "note:"}) {
      const std::string_view rest = std::string_view(message).substr(begin.size());
      if (!rest.starts_with(word)) continue;
      return fmt::format("{}{}{}", begin, Painted(word, style), rest.substr(word.size()));
    }
  }
  return message;
}

void PrintToErrors(const std::string& message) {
  std::fputs((WithPaintedWord(Printable(message)) + "\n").c_str(), stderr);
}

// Texts in JSON may hold characters that a terminal would obey.
class PrintableJsonStream : public llvm::raw_ostream {
 public:
  explicit PrintableJsonStream(llvm::raw_ostream& out) : out_(out) {}
  ~PrintableJsonStream() override { flush(); }

 private:
  void write_impl(const char* bytes, std::size_t count) override {
    position_ += count;
    left_.append(bytes, count);
    out_ << TakePrintableJson(left_);
  }
  std::uint64_t current_pos() const override { return position_; }

  llvm::raw_ostream& out_;
  std::string left_;  // The beginning of a character.
  std::uint64_t position_ = 0;
};

}  // namespace

void SpeakAs(const Speech& wanted) { speech = wanted; }

void ShowDiagnostics(const SpecSession& session, bool json) {
  if (json && session.sink.has_errors()) return;
  TextStyle style = StyleOfErrors();
  style.errors_alone = speech.is_quiet;
  const std::string text = RenderText(*session.source, session.sink, style);
  std::fputs(text.c_str(), stderr);
}

int ShowError(const std::string& program, llvm::Error error, bool json) {
  llvm::json::Object report;
  error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<SpecFailure> failure) -> llvm::Error {
    report = failure->diagnostics();
    return llvm::Error(std::move(failure));
  });
  FailureText failure = TakeFailure(std::move(error));
  if (json) {
    report["error"] = llvm::json::Object{{"code", CodeName(failure.code)}, {"message", failure.message}};
    PrintJson(std::move(report));
  }
  std::fflush(stdout);
  PrintToErrors(program + ": error: " + failure.message);
  return ExitCode(failure.code);
}

void ShowMessage(const std::string& message) {
  if (!speech.is_quiet) PrintToErrors(message);
}

void ShowHint(const std::string& message) { PrintToErrors(message); }

void ShowProgress(const std::string& text) {
  if (!speech.is_quiet) std::fputs(text.c_str(), stderr);
}

bool PrintLine(const std::string& line) { return std::fputs((Printable(line) + "\n").c_str(), stdout) >= 0; }

void PrintReportLine(const std::string& line) {
  if (!speech.is_quiet) PrintLine(line);
}

void PrintJson(llvm::json::Value value) {
  if (output_is_lost) return;
  if (llvm::json::Object* object = value.getAsObject()) (*object)["version"] = kJsonVersion;
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", value);
  stream << "\n";
  std::fputs(TakePrintableJson(text).c_str(), stdout);
}

llvm::Error PrintJsonBy(llvm::function_ref<void(llvm::json::OStream&)> write) {
  return PrintBy([&](llvm::raw_ostream& out) {
    PrintableJsonStream printable(out);
    llvm::json::OStream json(printable, 2);
    write(json);
    json.flush();
    printable << "\n";
    printable.flush();
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

bool ErrorsGoToTerminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (kind == nullptr || kind != std::string_view("dumb"));
}

std::size_t TerminalColumns() {
  winsize size{};
  constexpr std::size_t kLeast = 20;
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::max<std::size_t>(size.ws_col, kLeast) : 80;
}

}  // namespace ucp
