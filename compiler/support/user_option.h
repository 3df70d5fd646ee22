// The settings of a user, by the names that the user knows: `--drop-state exp_avg` on the command line,
// `drop_states="exp_avg"` in Python, `drop_states exp_avg` where nobody said how options are spelled.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ucp {

enum class UserOption {
  kConfig,
  kDeviceMemory,
  kDropStates,
  kDsConfig,
  kForce,
  kFrom,
  kIgnoreCrc,
  kIo,
  kKeepOpaque,
  kMemory,
  kNodeLocal,
  kParameters,
  kPreferRank,
  kReplicas,
  kResume,
  kSame,
  kSets,
  kSpec,
  kSynth,
  kTag,
  kThreads,
  kTiedLayer,
  kTo,
  kTrustPlan,
  kUnused,
};
inline constexpr int kUserOptions = static_cast<int>(UserOption::kUnused) + 1;

// Returns the option for use in a sentence, alone or with a value.
std::string OptionName(UserOption option);
std::string OptionName(UserOption option, std::string_view value);

// How this process spells them. Called once, before anything else of this project runs.
using OptionSpelling = std::string (*)(UserOption option, std::optional<std::string_view> value);
void SpellOptionsBy(OptionSpelling spelling);

}  // namespace ucp
