// A plan file of a real checkpoint, and what becomes of others that claim to be it: each that is accepted is run, and
// must write what the honest one writes, byte for byte.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <string>

#include "compiler/plan/codec.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {

struct AskedFor {
  std::string fixture;  // Of tests/fixtures.
  std::string spec;     // Of the catalogue, or empty.
  std::string target;
  bool contradicts_itself = false;  // One of its copies has another value, which the headers do not show.
};

struct Judgement {
  std::string refusal;     // Why the plan was not run, or not to its end; empty: it was.
  std::string difference;  // The difference of its output from the honest one; empty: nothing.
};

class PlanJudge {
 public:
  explicit PlanJudge(const AskedFor& asked);

  // As `ucpc plan -o` writes it.
  const std::string& honest_file() const { return honest_file_; }
  const PlanWithInputs& honest() const { return honest_; }

  // With `is_trusted`, as --trust-plan has it.
  Judgement Judge(const std::string& plan_file, bool is_trusted) const;

 private:
  std::string Output(const std::string& plan_file, bool is_trusted, std::map<std::string, std::string>& files) const;
  void DisturbACopy() const;

  AskedFor asked_;
  ScratchFolder folder_;
  std::string source_;
  std::string honest_file_;
  PlanWithInputs honest_;
  std::map<std::string, std::string> honest_output_;  // Empty where the honest plan comes to no end.
};

// Puts the length and the checksum of what stands behind them into an envelope.
std::string WithTrueEnvelope(std::string plan_file);

}  // namespace ucp
