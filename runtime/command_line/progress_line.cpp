#include "runtime/command_line/progress_line.h"

#include <optional>
#include <string>

#include "compiler/command_line/terminal.h"

namespace ucp {
namespace {

void Write(const std::optional<std::string>& text) {
  if (text) ShowProgress(*text);
}

}  // namespace

ProgressLine::ProgressLine()
    : output_(ErrorsGoToTerminal() ? std::optional(TerminalColumns()) : std::nullopt, ProgressOutput::Clock::now()) {}

void ProgressLine::Show(const ExecutionProgress& progress) {
  if (ErrorsGoToTerminal()) output_.Resize(TerminalColumns());
  Write(output_.Tell({progress.bytes_done, progress.bytes_total, progress.files_done, progress.files_total, 0, 0},
                     ProgressOutput::Clock::now()));
}

void ProgressLine::Clear() { Write(output_.Clear()); }

}  // namespace ucp
