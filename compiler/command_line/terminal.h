// How both programs speak: reports on standard output, messages on standard error, in colours on a terminal. Text from
// files is made printable here, so that no name of a tensor can command a terminal.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <string>
#include <string_view>

#include "compiler/command_line/speech.h"
#include "compiler/open/opened_spec.h"
#include "compiler/support/error.h"

namespace ucp {

// The setting from now on; before that, --color auto does.
void SpeakAs(const Speech& speech);

// The diagnostics of a spec, if there are any, on standard error; errors alone if quiet. With `json`, errors are left
// to ShowError(), which gets them from SpecErrors().
void ShowDiagnostics(const SpecSession& session, bool json = false);

// Prints "ucpc: error: …" and returns the exit code that docs/programs.md gives it. With `json`, an object on standard
// output as well: {"error": {"code": …, "message": …}}, and the diagnostics of a spec that is wrong (render.h).
int ShowError(const std::string& program, llvm::Error error, bool json = false);

// Prints one line to standard error, unless quiet. It may begin with `warning:` or `note:`, behind a program's name or
// not.
void ShowMessage(const std::string& message);
// Prints the same behind an error, which is printed even if quiet.
void ShowHint(const std::string& message);
// A piece of a line of progress, as it is, unless quiet.
void ShowProgress(const std::string& text);

// Prints one line to standard output: PrintReportLine() prints a report on the work, unless quiet; PrintLine() prints
// the output that was asked for. Returns false when nobody reads any more (a closed pipe), so that a long listing can
// stop.
bool PrintLine(const std::string& line);
void PrintReportLine(const std::string& line);
void PrintJson(llvm::json::Value value);
// Prints text that is too long to be held as one value. A closed pipe is not an error.
[[nodiscard]] llvm::Error PrintBy(llvm::function_ref<void(llvm::raw_ostream&)> write);
[[nodiscard]] llvm::Error PrintJsonBy(llvm::function_ref<void(llvm::json::OStream&)> write);

// Text as it is, control characters too: only for text that the user gave, and wants back.
void PrintVerbatim(std::string_view text);

// Flushes the output. An error if standard output could not take it (a full disk), which is reported once.
[[nodiscard]] llvm::Error FlushOutput();

// Returns whether standard error is a terminal that obeys commands, and how wide.
bool ErrorsGoToTerminal();
std::size_t TerminalColumns();

}  // namespace ucp
