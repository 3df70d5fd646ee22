// The processes of one run, which are its ranks, and what they tell one another. Threads of one process share memory
// and need none of this.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

namespace ucp {

// Every rank makes the same calls in the same order, from one thread at a time. A rank that dies ends the run of all.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // What each rank gives, by rank; a rank may give nothing. Nobody goes on before all have given theirs.
  virtual llvm::Expected<std::vector<std::string>> AllGather(const std::string& mine) = 0;

  // Asks all other ranks to come to their next AllGather() soon, because this one has failed or was cancelled.
  virtual void AskToStop() = 0;
  virtual bool IsAskedToStop() = 0;
};

// A run of this process alone.
Communicator& SingleProcess();

// What rank 0 gives.
llvm::Expected<std::string> FromFirstRank(Communicator& ranks, const std::string& mine);

// What came of something that rank 0 alone does, on every rank.
[[nodiscard]] llvm::Error OutcomeOfFirstRank(Communicator& ranks, llvm::Error mine);

// The outcome of all: success, or on every rank the same error, that of the lowest rank that has one, which is named if
// there are several ranks. Where some were cancelled and others failed, it is a failure.
[[nodiscard]] llvm::Error Agree(Communicator& ranks, llvm::Error mine);

}  // namespace ucp
