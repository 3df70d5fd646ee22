// The inputs of a plan besides the checkpoint. A plan file holds it, so that `ucprun run` can make the plan again of
// the checkpoint at hand and compare.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ucp {

struct NamedText {
  std::string name;  // A path, relative in a plan file.
  std::string text;
  bool operator==(const NamedText&) const = default;
};

struct PlanInputs {
  std::string source_strategy;           // Where no checkpoint was read: the strategy that made one up. Else empty.
  std::string target;                    // --to
  std::vector<NamedText> spec;           // The spec, and behind it what it includes; empty without one.
  std::optional<NamedText> config;       // --config
  std::optional<NamedText> ds_config;    // --ds-config
  std::vector<std::string> set;          // --set: NAME=VALUE
  std::vector<std::string> unused;       // --unused
  std::vector<std::string> drop_states;  // --drop-state
  std::vector<std::string> keep_opaque;  // --keep-opaque
  std::string tag;                       // --tag
  bool trusts_replicas = false;          // --replicas trust
  bool operator==(const PlanInputs&) const = default;
};

}  // namespace ucp
