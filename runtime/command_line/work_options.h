// How much of the machine a command uses: --threads, --memory; and what goes with it.
#pragma once

#include <llvm/Support/Error.h>
#include <CLI/App.hpp>

#include <string>

#include "runtime/command_line/watched_ranks.h"
#include "runtime/executor/execute.h"
#include "runtime/peer_files/node_local.h"
#include "runtime/storage/choose_io.h"

namespace ucp {

struct WorkOptions {
  bool json = false;
  bool ignore_crc = false;
  unsigned threads = 0;  // 0: as many as the process may use.
  std::string memory = "1GiB";
  unsigned rank_timeout = kRankPatience;  // Seconds.
};
void AddWorkOptions(CLI::App& command, WorkOptions& options);      // --threads, --memory, --json
void AddThreadsOption(CLI::App& command, WorkOptions& options);    // --threads alone.
void AddIgnoreCrcOption(CLI::App& command, WorkOptions& options);  // Where archives are read.

// Interrupts cancel. Fails with kUsage.
llvm::Expected<ExecutionOptions> ExecutionOptionsFrom(const WorkOptions& options);

// Returns how many threads a rank has.
unsigned ThreadsOf(const WorkOptions& options);

void AddIoOption(CLI::App& command, IoMode& wanted);

// Of a command that writes something, or of one that reads only.
enum class NodeLocalUse { kReads, kWrites };
void AddNodeLocalOption(CLI::App& command, NodeLocal& node_local, NodeLocalUse use);

}  // namespace ucp
