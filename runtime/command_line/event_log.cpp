#include "runtime/command_line/event_log.h"

#include <llvm/Support/raw_ostream.h>

#include <cmath>
#include <string>
#include <utility>

#include "compiler/support/json_text.h"

namespace ucp {

void EventLog::Add(const char* name, llvm::json::Object fields) {
  std::lock_guard lock(mutex_);
  const double at = std::chrono::duration<double>(Clock::now() - start_).count();
  fields["event"] = name;
  fields["version"] = kJsonVersion;
  fields["at"] = std::round(at * 1e6) / 1e6;
  std::string line;
  llvm::raw_string_ostream stream(line);
  stream << llvm::json::Value(std::move(fields)) << "\n";
  sink_.Append(stream.str());
  sink_.Flush();
}

llvm::Error EventLog::Close() {
  std::lock_guard lock(mutex_);
  return sink_.Close();
}

}  // namespace ucp
