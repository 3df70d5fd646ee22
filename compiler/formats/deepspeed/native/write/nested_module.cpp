#include "compiler/formats/deepspeed/native/write/nested_module.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeText;

constexpr std::string_view kRoot = "language_model.";
constexpr std::string_view kEmbedding = "embedding";
constexpr std::array<std::string_view, 5> kParts = {kEmbedding, "encoder", "decoder", "pooler", "output_layer"};

// The part before the first dot; takes it off with the dot.
std::string_view TakeWord(std::string_view& name) {
  const std::size_t dot = name.find('.');
  const std::string_view word = name.substr(0, dot);
  name.remove_prefix(dot == std::string_view::npos ? name.size() : dot + 1);
  return word;
}

// Dicts on the way, in the order in which their keys came.
struct Branch {
  std::string key;
  std::vector<Branch> branches;
  std::vector<Entry> leaves;

  Branch& Below(std::string_view name) {
    auto found =
        std::find_if(branches.begin(), branches.end(), [&](const Branch& branch) { return branch.key == name; });
    return found != branches.end() ? *found : branches.emplace_back(Branch{std::string(name), {}, {}});
  }
};

pytorch::ValuePtr ToValue(const Branch& branch) {
  if (branch.branches.empty()) return pytorch::MakeOrderedDict(branch.leaves);
  std::vector<Entry> entries = branch.leaves;
  for (const Branch& below : branch.branches) entries.push_back({MakeText(below.key), ToValue(below)});
  return pytorch::MakeDict(std::move(entries));
}

}  // namespace

bool HasNestedModule(const TrainingState& training, std::span<const LogicalTensor> tensors) {
  return !StateOf(training).pipeline && FindEntry(training.ranks.front().client, "args") != nullptr &&
         std::any_of(tensors.begin(), tensors.end(),
                     [](const LogicalTensor& tensor) { return tensor.name.starts_with(kRoot); });
}

llvm::Error CheckNestedModule(std::span<const LogicalTensor> tensors) {
  for (const LogicalTensor& tensor : tensors) {
    std::string_view rest = tensor.name;
    const bool is_inside = rest.starts_with(kRoot);
    if (is_inside) rest.remove_prefix(kRoot.size());
    const std::string_view part = TakeWord(rest);
    const bool is_known = std::find(kParts.begin(), kParts.end(), part) != kParts.end();
    const bool is_below = !rest.empty() && (part != kEmbedding || rest.find('.') != std::string_view::npos);
    if (is_inside && is_known && is_below) continue;
    return Fail(ErrorCode::kUnsupported,
                "Megatron-DeepSpeed without a pipeline keeps its module as nested dicts, and where `{}` stands in them "
                "is not known; convert to `universal` instead",
                tensor.name);
  }
  return llvm::Error::success();
}

pytorch::ValuePtr NestModule(const std::vector<Entry>& entries) {
  Branch root;
  for (const Entry& entry : entries) {
    std::string_view name = pytorch::AsText(*entry.key).value_or("");
    Branch* place = &root;
    if (name.starts_with(kRoot)) {
      place = &place->Below(TakeWord(name));
      const std::string_view part = TakeWord(name);
      place = &place->Below(part);
      if (part == kEmbedding) place = &place->Below(TakeWord(name));
    }
    place->leaves.push_back({MakeText(std::string(name)), entry.value});
  }
  return ToValue(root);
}

}  // namespace ucp::deepspeed
