// The one rule for a file that an option names to be written (docs/programs.md, "Files that are written"): an existing
// file is replaced if it is empty, if the same option wrote it before, or with --force. Never replaced, not even with
// --force, are a file that the command itself reads, a file of a checkpoint, or a spec.
#pragma once

#include <llvm/Support/Error.h>
#include <CLI/App.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ucp {

struct OutputRequest {
  std::string path;
  std::string what;                 // "the plan"
  std::string_view begins;          // As every such file does; empty: what is there is never one.
  bool force = false;               // It may replace another kind of file.
  std::vector<std::string> inputs;  // Other files that the command reads or writes; empty ones are none.
};

// Where it goes.
struct OutputPlace {
  enum class Kind {
    kNew,             // There is nothing.
    kReplaced,        // A regular file, which may go.
    kStream,          // A device, a pipe, or a file that is open already (/dev/fd/3): it is written to as it is.
    kStandardOutput,  // The same, and it is where reports are printed.
  };
  Kind kind = Kind::kNew;
  std::string path;  // Links are followed.
  std::string what;
};

// Looks, and writes nothing: call before the work, so that a refusal costs none. Fails with kUsage, and kIo where it
// cannot be told what is there.
llvm::Expected<OutputPlace> PlaceOutput(const OutputRequest& request);

// --force, for commands whose only output is the file of `option`.
void AddForceOption(CLI::App& command, const std::string& option, bool& force);

}  // namespace ucp
