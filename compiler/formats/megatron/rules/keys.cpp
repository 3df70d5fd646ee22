#include "compiler/formats/megatron/rules/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <set>
#include <utility>

#include "compiler/layout/storage.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

constexpr std::string_view kOptimizer = "optimizer.";
constexpr std::string_view kStates = "optimizer.state.";
constexpr std::string_view kShard = "/shard_";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "1.2" as {1, 2}; empty if it is something else.
std::vector<std::int64_t> NumbersIn(std::string_view text) {
  std::vector<std::int64_t> numbers;
  while (!text.empty()) {
    const std::string_view digits = text.substr(0, text.find('.'));
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size() || number < 0) return {};
    numbers.push_back(number);
    if (digits.size() == text.size()) return numbers;
    text.remove_prefix(digits.size() + 1);
  }
  return {};
}

// Several optimizers may be chained, each of which has its number before its keys.
std::string_view WithoutNumber(std::string_view key) {
  constexpr std::string_view kChained = "chained_";
  if (!key.starts_with(kChained)) return key;
  const std::size_t dot = key.find('.');
  if (dot == key.npos || NumbersIn(key.substr(kChained.size(), dot - kChained.size())).empty()) return key;
  return key.substr(dot + 1);
}

std::optional<ShardOfObject> ObjectOf(const dcp::Entry& entry) {
  const std::size_t slash = entry.key.rfind(kShard);
  if (slash == std::string::npos) return std::nullopt;
  const std::string_view numbers = std::string_view(entry.key).substr(slash + kShard.size());
  const std::size_t line = numbers.find('_');
  if (line == numbers.npos) return std::nullopt;
  ShardOfObject shard{entry.key.substr(0, slash), NumbersIn(numbers.substr(0, line)),
                      NumbersIn(numbers.substr(line + 1)), &entry};
  // Some releases left out the last number of the shape.
  const bool is_one = !shard.place.empty() && !shard.shape.empty() && shard.shape.size() <= shard.place.size();
  return is_one ? std::optional(std::move(shard)) : std::nullopt;
}

// Whether what stands behind `part` in the key is not a number.
bool HasUnnumbered(std::string_view key, std::string_view part) {
  const std::size_t found = key.find(part);
  if (found == key.npos || found + part.size() >= key.size()) return false;
  const bool begins_a_part = part.front() == '.' || found == 0 || key[found - 1] == '.';
  return begins_a_part && !IsDigit(key[found + part.size()]);
}

}  // namespace

std::string StateCalled(std::string_view state) {
  const bool is_master = state == "param" || state == "fp32_param" || state == "master_param";
  return is_master ? kMasterState : std::string(state);
}

llvm::Expected<Keys> SortKeys(std::span<const dcp::Entry> entries) {
  Keys keys;
  std::set<std::pair<std::string, std::string>> seen;
  for (const dcp::Entry& entry : entries) {
    const std::string_view key = WithoutNumber(entry.key);
    if (!entry.is_tensor) {
      auto object = ObjectOf(entry);
      if (!object) {
        return Fail(ErrorCode::kUnsupported,
                    "`{}` is a value, and its key does not end with a place such as `/shard_0_1`, as those that "
                    "Megatron Core saves do",
                    entry.key);
      }
      keys.objects.push_back(*std::move(object));
    } else if (key.starts_with(kStates) && key.find('.', kStates.size()) != key.npos) {
      const std::string_view rest = key.substr(kStates.size());
      const std::size_t dot = rest.find('.');
      StateKey state{StateCalled(rest.substr(0, dot)), std::string(rest.substr(dot + 1)), &entry};
      if (!seen.emplace(state.tensor, state.state).second) {
        return Fail(ErrorCode::kBadData, "`{}` is a second state `{}` of `{}`", entry.key, state.state, state.tensor);
      }
      keys.states.push_back(std::move(state));
    } else if (key.starts_with(kOptimizer)) {
      keys.buffers.push_back(&entry);
    } else {
      keys.tensors.push_back(&entry);
    }
  }
  return keys;
}

std::size_t StackedDimensions(std::string_view key) {
  return (IsStackOfLayers(key) ? 1U : 0U) + (HasUnnumbered(key, ".experts.experts.") ? 1U : 0U);
}

bool IsStackOfLayers(std::string_view key) { return HasUnnumbered(key, "layers."); }

bool IsOfExperts(std::string_view key) { return key.find(".experts.") != key.npos; }

bool IsBuffer(std::string_view key) { return key.starts_with(kLayers) && key.ends_with(kRouterBias); }

}  // namespace ucp::megatron
