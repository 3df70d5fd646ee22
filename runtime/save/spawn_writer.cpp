#include "runtime/save/spawn_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/printable.h"
#include "compiler/support/system_reason.h"

extern char** environ;

namespace ucp {
namespace {

constexpr std::size_t kLastBytes = 4096;
constexpr auto kMostWait = std::chrono::seconds(1);  // For a process whose sockets are closed to say why.

// The open files of the new process: standard input and output are nobody's, and only the listener is above.
class Actions {
 public:
  Actions() { ::posix_spawn_file_actions_init(&actions_); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;

  int Fill(int listener, int errors) {
    int failed = ::posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    if (failed == 0) failed = ::posix_spawn_file_actions_adddup2(&actions_, listener, kListenerDescriptor);
    if (failed == 0) failed = ::posix_spawn_file_actions_addclosefrom_np(&actions_, kListenerDescriptor + 1);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) {
      if (failed == 0) failed = ::posix_spawn_file_actions_addopen(&actions_, standard, "/dev/null", O_RDWR, 0);
    }
    return failed;
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class Attributes {
 public:
  Attributes() { ::posix_spawnattr_init(&attributes_); }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;

  // Signals are as a new program expects them, whatever the job has done with them.
  int Fill() {
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    int failed = ::posix_spawnattr_setsigmask(&attributes_, &none);
    if (failed == 0) failed = ::posix_spawnattr_setsigdefault(&attributes_, &all);
    if (failed == 0) failed = ::posix_spawnattr_setpgroup(&attributes_, 0);
    const int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    if (failed == 0) failed = ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
    return failed;
  }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// A copy of an open file whose number is none of those that the new process has of its own.
llvm::Expected<Descriptor> AboveStandard(int number) {
  Descriptor copy(::fcntl(number, F_DUPFD_CLOEXEC, kListenerDescriptor + 1));
  if (!copy.is_open()) return Fail(ErrorCode::kIo, "fcntl: {}", SystemReason(errno));
  return copy;
}

}  // namespace

llvm::Expected<WriterProcess> WriterProcess::Start(const std::string& program, const std::string& address) {
  UCP_ASSIGN_OR_RETURN(Listener listener, address.empty() ? Listen() : ListenAt(address));
  UCP_ASSIGN_OR_RETURN(const Descriptor socket, AboveStandard(listener.socket.number()));
  WriterProcess writer;
  writer.address_ = std::move(listener.address);
  writer.errors_ = Descriptor(::memfd_create("ucp-writer-errors", MFD_CLOEXEC));
  if (!writer.errors_.is_open()) return Fail(ErrorCode::kIo, "memfd_create: {}", SystemReason(errno));
  UCP_ASSIGN_OR_RETURN(writer.errors_, AboveStandard(writer.errors_.number()));
  Actions actions;
  Attributes attributes;
  int failed = actions.Fill(socket.number(), writer.errors_.number());
  if (failed == 0) failed = attributes.Fill();
  std::string command = "write-saves";
  std::string path = program;
  std::array<char*, 3> arguments = {path.data(), command.data(), nullptr};
  if (failed == 0) {
    failed = ::posix_spawn(&writer.id_, path.c_str(), actions.get(), attributes.get(), arguments.data(), environ);
  }
  if (failed != 0) {
    return Fail(ErrorCode::kIo, "the writer `{} write-saves` cannot be started: {}", program, SystemReason(failed));
  }
  return writer;
}

WriterProcess& WriterProcess::operator=(WriterProcess&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(address_, other.address_);
  std::swap(ended_, other.ended_);
  std::swap(errors_, other.errors_);
  std::swap(seen_, other.seen_);
  return *this;
}

WriterProcess::~WriterProcess() {
  const auto until = std::chrono::steady_clock::now() + kMostWait;
  while (!HasEnded() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void WriterProcess::End() {
  if (!HasEnded()) ::kill(id_, SIGTERM);
}

bool WriterProcess::HasEnded() {
  if (id_ < 0) return true;
  if (!ended_) {
    int status = 0;
    const pid_t found = ::waitpid(id_, &status, WNOHANG);
    if (found == id_ || (found < 0 && errno == ECHILD)) ended_ = status;  // Not a child: this is a fork.
  }
  return ended_.has_value();
}

std::string WriterProcess::LastWords() {
  std::string text;
  const auto until = std::chrono::steady_clock::now() + kMostWait;
  while (text.empty() && !HasEnded() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    text = NewErrors();
  }
  if (text.empty()) text = NewErrors();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t line = text.rfind('\n');
  if (line != std::string::npos) text.erase(0, line + 1);
  if (!text.empty()) return Printable(text);
  if (ended_ && WIFSIGNALED(*ended_)) return fmt::format("it was ended by signal {}", WTERMSIG(*ended_));
  if (ended_ && WIFEXITED(*ended_)) return fmt::format("it ended with code {}", WEXITSTATUS(*ended_));
  return "it no longer answers";
}

std::string WriterProcess::NewErrors() {
  const off_t size = ::lseek(errors_.number(), 0, SEEK_END);
  const off_t from = std::max(seen_, size - static_cast<off_t>(kLastBytes));
  std::string text(size > from ? static_cast<std::size_t>(size - from) : 0, '\0');
  const ssize_t read = ::pread(errors_.number(), text.data(), text.size(), from);
  text.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  seen_ = size;
  return text;
}

}  // namespace ucp
