#include "runtime/driver/progress.h"

#include <fmt/format.h>

#include <cstdio>

#include "compiler/driver/terminal.h"
#include "compiler/support/units.h"

namespace ucp {

ProgressLine::ProgressLine() : start_(std::chrono::steady_clock::now()), on_terminal_(ErrorsGoToTerminal()) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::Show(const ExecutionProgress& progress) {
  if (!on_terminal_ || progress.bytes_total == 0) return;
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  if (elapsed.count() < 0.2) return;
  auto done = static_cast<double>(progress.bytes_done);
  auto total = static_cast<double>(progress.bytes_total);
  double rate = done / elapsed.count();
  std::string left = rate > 0 ? fmt::format(", {:.0f} s left", (total - done) / rate) : "";
  std::string line = fmt::format("{:3.0f} %  {} of {}, {:.2f} GB/s{}", 100 * done / total,
                                 HumanBytes(progress.bytes_done), HumanBytes(progress.bytes_total), rate / 1e9, left);
  std::size_t room = TerminalColumns() - 1;
  if (line.size() > room) line.resize(room);
  std::fputs(("\r" + line + "\x1b[K").c_str(), stderr);
  shown_ = true;
}

}  // namespace ucp
