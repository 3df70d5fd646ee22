// Sound plans with one thing made wrong, and what the verifier says of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp::oracle {

struct Mutation {
  const char* name;
  std::function<void(Plan&)> apply;
  const char* phrase;  // Of the message.
};

// The verifier's words on `plan`, or "sound": the same however many threads prove it.
std::string Verdict(const Plan& plan);

// Each of `mutations`, done to a plan of `make`, is refused with its phrase.
void ExpectRefused(const std::function<Plan()>& make, const std::vector<Mutation>& mutations);

// Of the reads of `tensor` in a role, the one after `which` others.
PlanRead& ReadOf(Plan& plan, std::size_t tensor, ReadRole role, std::size_t which = 0);

}  // namespace ucp::oracle
