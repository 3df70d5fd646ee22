// Models of any number of wrappers are saved, so that a name has any number of `module.` before it.
#include "compiler/formats/dcp/entries/megatron_fsdp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/formats/dcp/entries/check_chunks.h"
#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kStates = "optimizer.state.";
constexpr std::string_view kMetaOfGroups = "optimizer.param_to_group_meta.";
constexpr std::string_view kGroupsOfParameters = "optimizer.param_groups.";
constexpr std::string_view kStep = ".step";
constexpr std::string_view kGate = ".linear_fc1.";

std::string_view WithoutModules(std::string_view name) {
  while (name.starts_with(kModulePrefix)) name.remove_prefix(kModulePrefix.size());
  return name;
}

// Of "a.linear_fc1.weight_w.exp_avg": where "_w" stands; nothing if it is not a half.
std::optional<std::size_t> PlaceOfHalf(std::string_view name) {
  const std::size_t gate = name.rfind(kGate);
  if (gate == name.npos) return std::nullopt;
  const std::size_t begin = gate + kGate.size();
  const std::size_t end = std::min(name.find('.', begin), name.size());
  const std::string_view parameter = name.substr(begin, end - begin);
  const bool is_parameter = parameter.starts_with("weight") || parameter.starts_with("bias");
  const bool is_half = is_parameter && (parameter.ends_with("_w") || parameter.ends_with("_v"));
  return is_half ? std::optional(end - 2) : std::nullopt;
}

// A module without Transformer Engine has norms of its own, which Megatron Core stores as parts of the linear layer
// behind them.
struct Norm {
  std::string_view own;
  std::string_view stored;
  std::string_view matrix;  // Of a layer that has it.
};
constexpr std::array<Norm, 2> kNorms = {
    {{".input_layernorm.", ".self_attention.linear_qkv.layer_norm_", ".self_attention.linear_qkv.weight"},
     {".pre_mlp_layernorm.", ".mlp.linear_fc1.layer_norm_", ".mlp.linear_fc1.weight"}}};

class Renamer {
 public:
  explicit Renamer(std::vector<Entry>& entries) : entries_(entries) {
    for (const Entry& entry : entries) {
      if (!entry.key.starts_with(kModel)) continue;
      std::string name(WithoutModules(std::string_view(entry.key).substr(kModel.size())));
      if (const auto half = PlaceOfHalf(name)) name.erase(*half, 2);
      names_.insert(std::move(name));
    }
  }

  llvm::Error Run() {
    for (Entry& entry : entries_) Rename(entry);
    std::map<std::string, Entry*> gates;
    for (Entry& entry : entries_) {
      const auto half = HalfOf(entry.key);
      if (half && entry.key[*half + 1] == 'w') gates.emplace(entry.key, &entry);
    }
    for (Entry& entry : entries_) {
      const auto half = HalfOf(entry.key);
      if (!half || entry.key[*half + 1] == 'w') continue;
      std::string gate_key = entry.key;
      gate_key[*half + 1] = 'w';
      const auto gate = gates.find(gate_key);
      if (gate == gates.end()) return Lacks(entry.key, fmt::format("`{}`", gate_key));
      UCP_RETURN_IF_ERROR(Join(*gate->second, entry));
      gates.erase(gate);
      entry.key.clear();  // It is part of the other now.
    }
    if (!gates.empty()) return Lacks(gates.begin()->first, "its other half");
    std::erase_if(entries_, [](const Entry& entry) { return entry.key.empty(); });
    for (Entry& entry : entries_) {
      if (const auto half = HalfOf(entry.key)) SetKey(entry, std::string(entry.key).erase(*half, 2));
    }
    TakeStepsOfSettings();
    return llvm::Error::success();
  }

 private:
  static llvm::Error Lacks(const std::string& key, const std::string& other) {
    return Fail(ErrorCode::kBadData, "it has `{}` and lacks {}: both halves of a gated layer are needed", key, other);
  }

  // In a key of the model or of a state.
  static std::optional<std::size_t> HalfOf(std::string_view key) {
    return key.starts_with(kModel) || key.starts_with(kStates) ? PlaceOfHalf(key) : std::nullopt;
  }

  void Rename(Entry& entry) {
    for (const auto& [own, common] :
         {std::pair(kModel, kModel), std::pair(kStates, kStates), std::pair(kMetaOfGroups, kGroupsOfParameters)}) {
      if (!std::string_view(entry.key).starts_with(own)) continue;
      const std::string_view name = WithoutModules(std::string_view(entry.key).substr(own.size()));
      return SetKey(entry, fmt::format("{}{}", common, StoredName(name)));
    }
  }

  std::string StoredName(std::string_view name) const {
    for (const Norm& norm : kNorms) {
      const std::size_t at = name.find(norm.own);
      if (at == name.npos || !names_.contains(fmt::format("{}{}", name.substr(0, at), norm.matrix))) continue;
      return fmt::format("{}{}{}", name.substr(0, at), norm.stored, name.substr(at + norm.own.size()));
    }
    return std::string(name);
  }

  // As the nested dict of get_state_dict() has it: the names of parameters have dots, and those of their states none.
  static void SetKey(Entry& entry, std::string key) {
    entry.key = std::move(key);
    const std::string_view text = entry.key;
    const bool has_path = entry.path.size() > 1;
    entry.path = {entry.key};
    if (!has_path) return;
    const std::size_t first = text.find('.');
    if (text.starts_with(kModel)) {
      entry.path = {std::string(text.substr(0, first)), std::string(text.substr(first + 1))};
      return;
    }
    const std::size_t table = text.find('.', first + 1);
    const std::size_t last = text.rfind('.');
    entry.path = {std::string(text.substr(0, first)), std::string(text.substr(first + 1, table - first - 1))};
    if (last > table) entry.path.emplace_back(std::string(text.substr(table + 1, last - table - 1)));
    entry.path.emplace_back(std::string(text.substr(last + 1)));
  }

  // Transformer Engine's optimizer keeps the step among the settings, where PyTorch's has one beside the states.
  void TakeStepsOfSettings() {
    std::set<std::string> keys;
    for (const Entry& entry : entries_) keys.insert(entry.key);
    for (Entry& entry : entries_) {
      const std::string_view key = entry.key;
      if (!key.starts_with(kGroupsOfParameters) || !key.ends_with(kStep)) continue;
      std::string of_state = fmt::format("{}{}", kStates, key.substr(kGroupsOfParameters.size()));
      if (keys.contains(of_state)) {
        entry.key.clear();
      } else {
        SetKey(entry, std::move(of_state));
      }
    }
    std::erase_if(entries_, [](const Entry& entry) { return entry.key.empty(); });
  }

  llvm::Error Join(Entry& gate, Entry& up) {
    if (gate.shape != up.shape || gate.dtype != up.dtype || gate.is_tensor != up.is_tensor) {
      return Fail(ErrorCode::kBadData, "`{}` has the shape [{}], and `{}`, its other half, has [{}]", gate.key,
                  fmt::join(gate.shape, ", "), up.key, fmt::join(up.shape, ", "));
    }
    if (!gate.is_tensor || gate.shape.empty()) return llvm::Error::success();  // A step, which both halves have.
    const std::int64_t rows = gate.shape.front();
    const auto both = CheckedMultiply(rows, 2);
    if (!both) return Fail(ErrorCode::kBadData, "`{}` has {} rows", gate.key, rows);
    gate.shape.front() = *both;
    if (llvm::Error error = ElementsOf(gate.shape, gate.dtype).takeError()) {
      return AddContext(std::move(error), fmt::format("both halves of `{}`", gate.key));
    }
    for (Chunk& chunk : up.chunks) {
      chunk.offsets.front() += rows;
      gate.chunks.push_back(std::move(chunk));
    }
    std::ranges::sort(gate.chunks, {}, &Chunk::offsets);
    return llvm::Error::success();
  }

  std::vector<Entry>& entries_;
  std::set<std::string> names_;  // Of the model's tensors.
};

}  // namespace

// The weight norm of torch has a `weight_v` beside a `weight_g`, and its spectral norm one beside a `weight_orig`.
bool IsOfMegatronFsdp(std::span<const Entry> entries) {
  std::set<std::string> halves;
  for (const Entry& entry : entries) {
    if (entry.key.starts_with(kMetaOfGroups)) return true;
    if (entry.key.starts_with(kModel) && PlaceOfHalf(entry.key)) halves.insert(entry.key);
  }
  const auto has_other = [&](std::string key) {
    char& letter = key[*PlaceOfHalf(key) + 1];
    letter = letter == 'w' ? 'v' : 'w';
    return halves.contains(key);
  };
  return !halves.empty() && std::ranges::all_of(halves, has_other);
}

llvm::Error RenameMegatronFsdp(std::vector<Entry>& entries) { return Renamer(entries).Run(); }

}  // namespace ucp::dcp
