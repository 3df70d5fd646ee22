// Differences that are reported and not refused, counted by all threads.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {

// Where one was found, in the order of the plan: the first of several is the one that is named, whichever thread finds
// it.
struct DifferencePlace {
  std::size_t write = 0;  // Index in Plan::writes.
  std::string state;
  std::int64_t element = 0;  // Local, of that write.
  std::size_t read = 0;      // Index in Plan::reads.
  auto operator<=>(const DifferencePlace&) const = default;
};

class DifferenceTally {
 public:
  // The key of a count: a tensor or a read, and a state or a file.
  using Subject = std::pair<std::size_t, std::string>;

  explicit DifferenceTally(const Plan& plan) : plan_(plan) {}

  // `describe` is called at once, and only if no earlier difference of the subject is known.
  void Add(const Subject& subject, const DifferencePlace& first, std::uint64_t count,
           llvm::function_ref<RankDecision()> describe);

  // Call when all threads are done. `elements` counts those once that several ranks of the target hold, if they hold
  // the same part.
  struct Entry {
    Subject subject;
    DifferencePlace place;  // Of the first one.
    RankDecision first;
    std::uint64_t elements = 0;
  };
  std::vector<Entry> Entries() const;

  // Only while no thread adds. Restoring adds to the tally, and fails the reader for subjects above `subjects` and what
  // is not of the plan.
  void Save(wire::ByteWriter& writer) const;
  void Restore(wire::ByteReader& reader, std::size_t subjects);

 private:
  struct Counted {
    DifferencePlace place;
    RankDecision first;
    std::map<std::size_t, std::uint64_t> by_write;
  };

  const Plan& plan_;
  std::mutex mutex_;  // Protects what follows.
  std::map<Subject, Counted> counted_;
};

}  // namespace ucp
