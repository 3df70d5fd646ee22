// Starts the writer's program.
#pragma once

#include <llvm/Support/Error.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "runtime/comm/message_socket.h"

namespace ucp {

// The descriptor at which the writer finds its listening socket.
inline constexpr int kListenerDescriptor = 3;

// A process that this one has started.
class WriterProcess {
 public:
  // `ucprun` is started as `PROGRAM write-saves`, in a process group of its own, so that a Ctrl-C for the job is not
  // for it. It inherits no open files. Fails with kIo.
  // `address`: where an earlier one listened; empty: a new one.
  static llvm::Expected<WriterProcess> Start(const std::string& program, const std::string& address = "");
  WriterProcess() = default;
  WriterProcess(WriterProcess&& other) noexcept { *this = std::move(other); }
  WriterProcess& operator=(WriterProcess&& other) noexcept;
  ~WriterProcess();  // Waits a moment for it to end.

  const std::string& address() const { return address_; }
  pid_t id() const { return id_; }
  // Of no use any more: nobody is connected to it.
  void End();
  // Also takes it off the system's table of processes.
  bool HasEnded();
  // Once it no longer answers: what it has written to standard error since the last time, of which this is the last
  // line; or how it has ended.
  std::string LastWords();

 private:
  std::string NewErrors();

  pid_t id_ = -1;
  std::optional<int> ended_;  // With this status.
  off_t seen_ = 0;            // Of `errors_`.
  std::string address_;
  Descriptor errors_ = Descriptor(-1);  // Its output on standard error.
};

}  // namespace ucp
