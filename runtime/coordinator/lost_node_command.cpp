#include "runtime/coordinator/lost_node_command.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {

llvm::Error LostNodeCommand::Run(const CoordinatorEntry& lost) const {
  if (command_.empty()) return llvm::Error::success();
  std::vector<std::string> added = {"UCP_NODE=" + lost.node, "UCP_TASK=" + lost.task, "UCP_REASON=" + lost.reason};
  std::vector<char*> environment;
  for (std::string& variable : added) environment.push_back(variable.data());
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    // UCP_NODE of the coordinator's own machine, which a shell would take.
    const bool is_ours = std::ranges::any_of(added, [&](const std::string& own) {
      return std::string_view(*variable).starts_with(std::string_view(own).substr(0, own.find('=') + 1));
    });
    if (!is_ours) environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  std::string shell = "sh";
  std::string option = "-c";
  std::string command = command_;
  char* const arguments[] = {shell.data(), option.data(), command.data(), nullptr};
  pid_t process = 0;
  const int failed = ::posix_spawn(&process, "/bin/sh", nullptr, nullptr, arguments, environment.data());
  if (failed == 0) return llvm::Error::success();
  return Fail(ErrorCode::kIo, "cannot run `{}` for node `{}`: {}", command_, lost.node, SystemReason(failed));
}

void LostNodeCommand::Reap() const {
  if (command_.empty()) return;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace ucp
