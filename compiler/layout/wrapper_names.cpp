#include "compiler/layout/wrapper_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

namespace ucp {
namespace {

constexpr std::string_view kCheckpointed = "_checkpoint_wrapped_module.";
constexpr std::array<std::string_view, 3> kAnywhere = {"_orig_mod.", kCheckpointed, "_fsdp_wrapped_module."};
constexpr std::string_view kData = "module.";
constexpr std::string_view kPeft = "base_model.model.";
constexpr std::string_view kAdaptedLayer = "base_layer.";
constexpr std::string_view kLightning = "model.";

// Wherever a component of the name is this. Returns whether one is.
bool TakeOut(std::string_view component, std::string& name) {
  bool changes = false;
  for (std::size_t at = name.find(component); at != std::string::npos; at = name.find(component, at)) {
    if (at > 0 && name[at - 1] != '.') {
      ++at;
      continue;
    }
    name.erase(at, component.size());
    changes = true;
  }
  return changes;
}

class Stripping {
 public:
  explicit Stripping(const std::set<std::string>& names) : plain_(names.begin(), names.end()) {}

  void Run(bool is_of_lightning) {
    bool is_peft = false;
    for (bool changes = true; changes;) {
      changes = false;
      for (std::string_view component : kAnywhere) changes = TakeOutOfAll(component) || changes;
      changes = TakeOffAll(kData) || changes;
      if (TakeOffAll(kPeft)) is_peft = changes = true;
      if (is_of_lightning && TakeOffAll(kLightning)) {
        is_of_lightning = false;  // A model can have an attribute of this name itself.
        changes = true;
      }
    }
    if (is_peft) TakeOutOfAll(kAdaptedLayer);
  }

  const std::vector<std::string>& plain() const { return plain_; }
  std::vector<std::string> TakeWrappers() { return std::move(wrappers_); }

 private:
  bool TakeOutOfAll(std::string_view component) {
    bool changes = false;
    for (std::string& name : plain_) changes = TakeOut(component, name) || changes;
    if (changes) Note(component);
    return changes;
  }

  bool TakeOffAll(std::string_view prefix) {
    const bool all = !plain_.empty() && std::ranges::all_of(plain_, [&](const std::string& name) {
      return name.starts_with(prefix) && name.size() > prefix.size();
    });
    if (!all) return false;
    for (std::string& name : plain_) name.erase(0, prefix.size());
    Note(prefix);
    return true;
  }

  void Note(std::string_view wrapper) {
    if (std::ranges::find(wrappers_, wrapper) == wrappers_.end()) wrappers_.emplace_back(wrapper);
  }

  std::vector<std::string> plain_;
  std::vector<std::string> wrappers_;
};

bool IsOfAdapter(const std::string& name) {
  for (std::string_view part :
       {"lora_A.", "lora_B.", "lora_embedding_A.", "lora_embedding_B.", "lora_magnitude_vector.", "ia3_l.",
        "modules_to_save.", "hada_w1_a.", "oft_R.", "vera_lambda_b."}) {
    const std::size_t at = name.find(part);
    if (at != std::string::npos && (at == 0 || name[at - 1] == '.')) return true;
  }
  return false;
}

}  // namespace

std::string NameInStateDict(std::string name) {
  TakeOut(kCheckpointed, name);
  return name;
}

PlainNames WithoutWrappers(const std::set<std::string>& names, bool is_of_lightning) {
  Stripping stripping(names);
  stripping.Run(is_of_lightning);
  PlainNames found;
  found.wrappers = stripping.TakeWrappers();
  std::unordered_map<std::string, const std::string*> taken;
  std::size_t i = 0;
  for (const std::string& name : names) {
    const std::string& plain = stripping.plain()[i++];
    if (found.of_adapter.empty() && IsOfAdapter(plain)) found.of_adapter = plain;
    auto [other, is_free] = taken.emplace(plain, &name);
    if (!is_free) {
      found.plain.clear();
      found.clash = fmt::format("`{}` and `{}` would both be `{}`", *other->second, name, plain);
      return found;
    }
    if (plain != name) found.plain.emplace(name, plain);
  }
  return found;
}

}  // namespace ucp
