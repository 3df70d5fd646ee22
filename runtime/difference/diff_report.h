// The findings of `ucprun diff`, as text and as JSON.
#pragma once

#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

#include "compiler/layout/checkpoint_identity.h"
#include "runtime/difference/difference_sum.h"
#include "runtime/difference/pair_states.h"

namespace ucp {

struct StateOutcome {
  StatePair pair;
  bool is_same_by_digest = false;  // And so was not read.
  Difference difference;           // If both sides have it.
};

struct TensorOutcome {
  TensorPair pair;
  std::vector<StateOutcome> states;
};

struct DiffReport {
  std::string a;
  std::string b;
  std::vector<TensorOutcome> tensors;         // By name.
  std::vector<CheckpointIdentity> read = {};  // Both.
  std::vector<std::string> settings = {};     // Sentences: steps and hyper-parameters that differ.
};

// States that are equal by a declared cast do not differ, nor do states beyond weights where the other side has none.
bool Differs(const TensorOutcome& tensor);
bool Differs(const DiffReport& report);

std::vector<std::string> DiffLines(const DiffReport& report);
void WriteDiff(const DiffReport& report, llvm::json::OStream& json);

}  // namespace ucp
