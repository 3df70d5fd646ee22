#include "compiler/formats/dcp/entries/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "compiler/formats/dcp/entries/parameter_names.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr std::string_view kState = "state";
constexpr std::string_view kGroups = "param_groups";

// "optimizer", "optim", "optimizer_0"
bool IsOptimizerName(std::string_view name) {
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  if (name.ends_with('_')) name.remove_suffix(1);
  return name == "optimizer" || name == "optim" || name == "optimizers";
}

// Whether this part, with all its dots, is the beginning of a key: "state" of "state.a"
bool BeginsWith(std::string_view key, std::string_view part) {
  return key.starts_with(part) && (key.size() == part.size() || key[part.size()] == '.');
}

std::string TextOf(const PathPart& part) {
  const auto* text = std::get_if<std::string>(&part);
  return text != nullptr ? *text : fmt::to_string(std::get<std::int64_t>(part));
}

std::vector<PathPart> SplitAtDots(std::string_view key) {
  std::vector<PathPart> parts;
  while (true) {
    const std::size_t dot = key.find('.');
    parts.emplace_back(std::string(key.substr(0, dot)));
    if (dot == std::string_view::npos) return parts;
    key.remove_prefix(dot + 1);
  }
}

bool IsModelName(std::string_view name) { return name == "model" || name == "state_dict"; }

// "app.optim" of "app.optim.state.a.exp_avg"; nothing if the entry is not an optimizer's.
std::optional<std::string> OptimizerOf(const Entry& entry, bool has_paths) {
  const std::vector<PathPart> path = has_paths ? entry.path : SplitAtDots(entry.key);
  std::string prefix;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    if (TextOf(path[i]) == "model" || TextOf(path[i]) == "module") return std::nullopt;  // A module of its own.
    prefix += (i == 0 ? "" : ".") + TextOf(path[i]);
    const std::string next = TextOf(path[i + 1]);
    if (IsOptimizerName(TextOf(path[i])) && (BeginsWith(next, kState) || BeginsWith(next, kGroups))) return prefix;
  }
  return std::nullopt;
}

// A key below a prefix, without it; the key itself below none.
std::optional<std::string_view> Below(std::string_view key, std::string_view prefix) {
  if (prefix.empty()) return key;
  if (key.size() <= prefix.size() + 1 || !BeginsWith(key, prefix)) return std::nullopt;
  return key.substr(prefix.size() + 1);
}

class Finder {
 public:
  Finder(std::span<const Entry> entries, bool has_paths) : entries_(entries), has_paths_(has_paths) {}

  llvm::Expected<Roles> Run() {
    UCP_RETURN_IF_ERROR(FindOptimizer());
    UCP_RETURN_IF_ERROR(FindModel());
    for (const Entry& entry : entries_) Place(entry);
    roles_.model_prefix = model_;
    roles_.optimizer_prefix = optimizer_.value_or("");
    return std::move(roles_);
  }

 private:
  llvm::Error FindOptimizer() {
    for (const Entry& entry : entries_) {
      const auto found = OptimizerOf(entry, has_paths_);
      if (!found || (optimizer_ && *optimizer_ == *found)) continue;
      if (optimizer_) {
        return Fail(ErrorCode::kUnsupported,
                    "it has two optimizers, `{}` and `{}`, and checkpoints of one are read; save a checkpoint for each",
                    *optimizer_, *found);
      }
      optimizer_ = found;
    }
    roles_.has_optimizer = optimizer_.has_value();
    return llvm::Error::success();
  }

  // The rest of a key behind the optimizer's prefix and `part`.
  std::optional<std::string_view> OfOptimizer(const Entry& entry, std::string_view part) const {
    if (!optimizer_) return std::nullopt;
    const auto rest = Below(entry.key, *optimizer_);
    return rest ? Below(*rest, part) : std::nullopt;
  }

  bool IsOfOptimizer(const Entry& entry) const { return optimizer_ && Below(entry.key, *optimizer_).has_value(); }

  // Prefixes below which stands a tensor that `of_parameter`, "a.weight.exp_avg", can be a state of.
  std::set<std::string> PrefixesFor(std::string_view of_parameter) const {
    std::unordered_set<std::string> names;
    for (std::size_t dot = of_parameter.rfind('.'); dot != std::string_view::npos && dot > 0;
         dot = of_parameter.rfind('.', dot - 1)) {
      names.insert(WithoutWrappers(of_parameter.substr(0, dot)));
    }
    std::map<std::size_t, std::set<std::string>> by_length;  // Of the name.
    for (const Entry& entry : entries_) {
      if (!entry.is_tensor || IsOfOptimizer(entry)) continue;
      const std::string_view key = entry.key;
      for (std::size_t begin = 0; begin != std::string_view::npos;) {
        const std::string name = WithoutWrappers(key.substr(begin));
        if (names.contains(name)) by_length[name.size()].emplace(key.substr(0, begin == 0 ? 0 : begin - 1));
        const std::size_t dot = key.find('.', begin);
        begin = dot == std::string_view::npos ? dot : dot + 1;
      }
    }
    return by_length.empty() ? std::set<std::string>() : std::prev(by_length.end())->second;
  }

  // Of several, such as averaged weights beside the model's, the one that is called as models are. `module` is what
  // wrappers call what they wrap, averaged weights (`AveragedModel`) among them.
  llvm::Expected<std::string> Choose(const std::set<std::string>& prefixes) const {
    if (prefixes.size() == 1) return *prefixes.begin();
    std::vector<std::string> models;
    std::vector<std::string> modules;
    for (const std::string& prefix : prefixes) {
      const std::string_view last = std::string_view(prefix).substr(prefix.rfind('.') + 1);
      if (prefix.empty() || IsModelName(last)) models.push_back(prefix);
      if (last == "module") modules.push_back(prefix);
    }
    if (models.size() == 1) return models.front();
    if (models.empty() && modules.size() == 1) return modules.front();
    return Fail(
        ErrorCode::kUnsupported,
        "the optimizer's parameters stand below `{}` and below `{}`, and nothing says which are the model's; save the "
        "model under the key `model`, and others under other names",
        *prefixes.begin(), *prefixes.rbegin());
  }

  llvm::Error FindModel() {
    constexpr int kMostTries = 16;  // Each looks at all entries, and one parameter is enough.
    for (const std::string_view part : {kState, kGroups}) {
      int tries = 0;
      for (const Entry& entry : entries_) {
        const auto of_parameter = OfOptimizer(entry, part);
        if (!of_parameter || of_parameter->find('.') == std::string_view::npos) continue;
        if (tries++ == kMostTries) break;
        const std::set<std::string> prefixes = PrefixesFor(*of_parameter);
        if (prefixes.empty()) continue;
        UCP_ASSIGN_OR_RETURN(model_, Choose(prefixes));
        return IndexNames();
      }
    }
    FindModelByName();
    return IndexNames();
  }

  // Without parameters of an optimizer: the dict that is called as models are.
  void FindModelByName() {
    constexpr std::array<std::string_view, 5> kNames = {"model", "app.model", "state_dict", "app.state_dict", "module"};
    for (const std::string_view name : kNames) {
      const bool is_there = std::ranges::any_of(entries_, [&](const Entry& entry) {
        if (!has_paths_ || !entry.is_tensor || entry.path.size() < 2) return false;
        std::string container = TextOf(entry.path.front());
        for (std::size_t i = 1; i + 1 < entry.path.size(); ++i) container += "." + TextOf(entry.path[i]);
        return BeginsWith(container, name);
      });
      if (!is_there) continue;
      model_ = name;
      return;
    }
  }

  // Below no prefix the model's tensors are those that stand in no dict of their own.
  bool IsOfModel(const Entry& entry) const {
    if (IsOfOptimizer(entry) || !Below(entry.key, model_)) return false;
    if (!model_.empty() || !has_paths_ || !has_roots_) return true;
    return entry.path.size() == 1;
  }

  llvm::Error IndexNames() {
    has_roots_ = std::ranges::any_of(entries_, [&](const Entry& entry) {
      return entry.is_tensor && !IsOfOptimizer(entry) && entry.path.size() == 1;
    });
    std::vector<std::string> names;
    for (const Entry& entry : entries_) {
      if (entry.is_tensor && IsOfModel(entry)) names.emplace_back(*Below(entry.key, model_));
    }
    drops_module_ = AllStandBelowModule(names);
    for (const std::string& name : names) {
      auto [known, is_new] = key_of_name_.emplace(Name(name), name);
      if (is_new) continue;
      return Fail(ErrorCode::kBadData, "`{}` and `{}` are one name, `{}`, without what wrappers added", known->second,
                  name, known->first);
    }
    return llvm::Error::success();
  }

  std::string Name(std::string_view name) const {
    return WithoutWrappers(drops_module_ && name.starts_with(kModulePrefix) ? name.substr(kModulePrefix.size()) : name);
  }

  // The parameter that "a.weight.exp_avg" begins with: the longest one.
  std::optional<std::pair<std::string, std::string>> SplitOfParameter(std::string_view text) const {
    for (std::size_t dot = text.rfind('.'); dot != std::string_view::npos && dot > 0; dot = text.rfind('.', dot - 1)) {
      std::string name = Name(text.substr(0, dot));
      if (key_of_name_.contains(name)) return std::pair(std::move(name), std::string(text.substr(dot + 1)));
    }
    return std::nullopt;
  }

  void Place(const Entry& entry) {
    if (IsOfOptimizer(entry)) {
      PlaceOfOptimizer(entry);
    } else if (IsOfModel(entry)) {
      std::string name = Name(*Below(entry.key, model_));
      (entry.is_tensor ? roles_.tensors : roles_.extras).push_back({std::move(name), &entry});
    } else {
      roles_.others.push_back({entry.path, &entry});
    }
  }

  void PlaceOfOptimizer(const Entry& entry) {
    if (const auto text = OfOptimizer(entry, kState)) {
      auto split = SplitOfParameter(*text);
      if (!split) return NotUnderstood(entry);
      if (!states_seen_.insert(*split).second && roles_.unread_optimizer.empty()) {
        roles_.unread_optimizer = fmt::format("the optimizer has two states `{}` of `{}`, without what wrappers added",
                                              split->second, split->first);
      }
      roles_.states.push_back({std::move(split->first), std::move(split->second), &entry});
      return;
    }
    if (*Below(entry.key, *optimizer_) == kGroups) {
      roles_.groups.push_back({std::nullopt, "", {}, &entry});
      return;
    }
    if (const auto text = OfOptimizer(entry, kGroups)) return PlaceOfGroup(entry, *text);
    roles_.optimizer.push_back({PathBelow(entry, *optimizer_), &entry});
  }

  // `param_groups.0.lr`: the paths say whether 0 is a place in a list or the name of a parameter.
  void PlaceOfGroup(const Entry& entry, std::string_view text) {
    std::vector<PathPart> path = PathBelow(entry, fmt::format("{}.{}", *optimizer_, kGroups));
    const bool is_in_list = !path.empty() && std::holds_alternative<std::int64_t>(path.front());
    auto split = is_in_list ? std::nullopt : SplitOfParameter(text);
    if (split) {
      roles_.groups.push_back({std::nullopt, std::move(split->first), {std::move(split->second)}, &entry});
      return;
    }
    const auto number = path.size() < 2 ? std::nullopt : AsNumber(TextOf(path.front()));
    if (!number) return NotUnderstood(entry);
    path.erase(path.begin());
    roles_.groups.push_back({number, "", std::move(path), &entry});
  }

  // The parts of a path behind those that make `prefix`.
  std::vector<PathPart> PathBelow(const Entry& entry, std::string_view prefix) const {
    std::string before;
    for (std::size_t i = 0; has_paths_ && i + 1 < entry.path.size(); ++i) {
      before += (i == 0 ? "" : ".") + TextOf(entry.path[i]);
      if (before == prefix) return {entry.path.begin() + static_cast<std::ptrdiff_t>(i) + 1, entry.path.end()};
    }
    return SplitAtDots(*Below(entry.key, prefix));
  }

  void NotUnderstood(const Entry& entry) {
    if (!roles_.unread_optimizer.empty()) return;
    roles_.unread_optimizer = fmt::format(
        "`{}` of the optimizer does not name a parameter of the model; save the optimizer's state with "
        "get_state_dict() "
        "of torch.distributed.checkpoint.state_dict, which names parameters",
        entry.key);
  }

  std::span<const Entry> entries_;
  const bool has_paths_;
  std::optional<std::string> optimizer_;  // The prefix of its keys.
  std::string model_;
  bool has_roots_ = false;     // There are tensors that stand in no dict.
  bool drops_module_ = false;  // DistributedDataParallel's.
  std::unordered_map<std::string, std::string> key_of_name_;
  std::set<std::pair<std::string, std::string>> states_seen_;  // Parameter and state.
  Roles roles_;
};

}  // namespace

llvm::Expected<Roles> FindRoles(std::span<const Entry> entries, bool has_paths) {
  return Finder(entries, has_paths).Run();
}

}  // namespace ucp::dcp
