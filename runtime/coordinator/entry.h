// A decision of a coordinator, as its journal keeps it: enough to be in the same state again after a restart.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

struct CoordinatorEntry {
  double time = 0;         // Of the system's clock, in seconds since 1970.
  std::string event = {};  // epoch, trains, failure, lost, drained, undrained, share or ended.
  std::string task = {};
  std::string node = {};  // Of a failure: at fault; empty: nobody knows.
  std::int64_t epoch = 0;
  std::vector<std::string> nodes = {};  // Of an epoch, by rank.
  std::int64_t least = 0;               // Of an epoch.
  std::int64_t most = 0;
  // Of a failure.
  std::string failure = {};  // Its kind (failures.def).
  std::int64_t severity = 0;
  std::optional<std::int64_t> step = {};  // That did not end.
  std::int64_t iterations = 0;            // That had ended since the answer before.
  bool is_of_answer = false;              // The answer before did not lead to an iteration.
  std::string answer = {};
  std::string reason = {};
  std::optional<std::int64_t> share = {};  // How many nodes the task should have.
  bool operator==(const CoordinatorEntry&) const = default;
};

llvm::json::Object JsonOf(const CoordinatorEntry& entry);
// Fails with kBadData.
llvm::Expected<CoordinatorEntry> ParseEntry(std::string_view text);

// "llama: n1: process exited: restart: the processes start again": one line for a person.
std::string SentenceOf(const CoordinatorEntry& entry);

}  // namespace ucp
