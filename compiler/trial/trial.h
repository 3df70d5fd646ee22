// A spec's own test: its model with small dims, converted between small meshes in memory, every element followed.
//
// The laws: what arrives is what the definitions of docs/algebra.md put there; there and back is the identity; two hops
// equal one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/spec/spec.h"
#include "compiler/trial/small_values.h"

namespace ucp {

struct TrialOptions {
  Settings set;  // Dims and facts that are not to be chosen.
  std::uint64_t seed = 1;
  double seconds = 2;  // For random meshes; the small ones are all tried first, however long it takes.
};

struct TrialReport {
  std::vector<Settings> values;  // Those that were tried, the first ones first.
  std::size_t families = 0;      // How many ways to set the facts were tried.
  std::size_t tensors = 0;       // Of the first values, as all that follows up to `misfits`.
  std::int64_t elements = 0;
  std::vector<Mesh> meshes;                 // Small ones that fit.
  std::vector<SmallModel::Misfit> misfits;  // And those that do not.
  std::int64_t random_meshes = 0;           // Random ones that fit.
  std::int64_t random_misfits = 0;
  std::int64_t conversions = 0;
  std::int64_t copied = 0;                      // Elements, in all conversions.
  std::vector<std::string> unreached;           // Items that no values gave a name: "gpt.ucp:14: "x.weight"".
  std::map<std::string, std::int64_t> refused;  // Conversions that the planner refuses, and how often each was met.
  std::string failure;                          // The fault; empty if there is none.
};

TrialReport TrySpec(const CheckedSpec& spec, const TrialOptions& options);

// Converts `from` to `over` and back, and on to `to`, which must be what `from` gives directly. Counts in `report`, and
// fills its `failure` at the first thing that is wrong.
void TryConversions(const Layout& from, const Layout& over, const Layout& to, Random& random, TrialReport& report);

}  // namespace ucp
