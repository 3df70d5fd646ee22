#include "compiler/formats/pytorch/values/value_builder.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/formats/pytorch/values/value_walk.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

// Depth-first, with a stack of our own: a value is opened, then its children are visited, then it is closed. A child
// that is still open contains its parent. The depth of a value is known when it is closed, since its children were
// closed before; each value is opened once however often it is shared. Values that hold no others, which are most, need
// none of that.
class TreeCheck {
 public:
  explicit TreeCheck(int depth_limit) : depth_limit_(depth_limit) {}

  llvm::Error Run(const Value* root);
  bool reached(const Value* value) const { return depths_.contains(value); }

 private:
  static constexpr int kOpen = 0;

  llvm::Error Open(const Value* value);
  llvm::Error Close(const Value* value);

  int depth_limit_;
  llvm::DenseMap<const Value*, int> depths_;  // kOpen until closed.
  struct Visit {
    const Value* value;
    bool closes;
  };
  std::vector<Visit> visits_;
  std::vector<const Value*> children_;
};

llvm::Error TreeCheck::Run(const Value* root) {
  visits_.push_back({root, false});
  while (!visits_.empty()) {
    const Visit visit = visits_.back();
    visits_.pop_back();
    UCP_RETURN_IF_ERROR(visit.closes ? Close(visit.value) : Open(visit.value));
  }
  return llvm::Error::success();
}

llvm::Error TreeCheck::Open(const Value* value) {
  const auto [place, is_new] = depths_.try_emplace(value, kOpen);
  if (!is_new) {
    if (place->second == kOpen) return Fail(ErrorCode::kBadData, "the pickle holds an object that contains itself");
    return llvm::Error::success();
  }
  visits_.push_back({value, true});
  children_.clear();
  AppendChildren(*value, children_);
  for (const Value* child : children_) {
    if (IsContainer(*child)) visits_.push_back({child, false});
  }
  return llvm::Error::success();
}

llvm::Error TwiceError(const std::string& key) {
  return Fail(ErrorCode::kBadData, "the pickle holds a dict that has the key `{:.80}` twice", key);
}

// A key that stands twice, if one does. Texts are few bytes each and differ in identity, so that looking at them costs
// no more than reading them did. Names of tensors begin alike: what is sorted is their hashes, and themselves only if
// two of those are equal.
llvm::Error CheckTextsDiffer(const std::vector<std::string_view>& texts) {
  constexpr std::size_t kLongest = 4096;
  for (const std::string_view text : texts) {
    if (text.size() > kLongest) return Fail(ErrorCode::kUnsupported, "the pickle holds a key of {} bytes", text.size());
  }
  llvm::DenseSet<const char*> seen;
  seen.reserve(texts.size());
  for (const std::string_view text : texts) {
    if (!seen.insert(text.data()).second) return TwiceError(std::string(text));
  }
  std::vector<std::uint64_t> hashes;
  hashes.reserve(texts.size());
  for (const std::string_view text : texts) hashes.push_back(ContentHash64(text));
  std::ranges::sort(hashes);
  if (std::ranges::adjacent_find(hashes) == hashes.end()) return llvm::Error::success();
  std::vector<std::string_view> sorted = texts;
  std::ranges::sort(sorted);
  const auto equal = std::ranges::adjacent_find(sorted);
  if (equal != sorted.end()) return TwiceError(std::string(*equal));
  return llvm::Error::success();
}

// The keys that are one in Python are one here: True and 1, 2.0 and 2.
std::optional<std::int64_t> AsIntegerKey(const Value& key) {
  if (const auto* integer = key.As<std::int64_t>()) return *integer;
  if (const auto* truth = key.As<bool>()) return *truth ? 1 : 0;
  const auto* number = key.As<double>();
  if (number == nullptr || !(std::abs(*number) < 0x1p53) || std::trunc(*number) != *number) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

llvm::Error CheckKeysDiffer(const std::vector<Entry>& entries) {
  if (entries.size() < 2) return llvm::Error::success();
  std::vector<std::string_view> texts;
  std::vector<std::int64_t> integers;
  for (const Entry& entry : entries) {
    if (const auto* text = entry.key->As<Text>()) texts.push_back(text->utf8);
    if (const auto integer = AsIntegerKey(*entry.key)) integers.push_back(*integer);
  }
  std::ranges::sort(integers);
  const auto twice = std::ranges::adjacent_find(integers);
  if (twice != integers.end()) return TwiceError(std::to_string(*twice));
  return CheckTextsDiffer(texts);
}

llvm::Error TreeCheck::Close(const Value* value) {
  children_.clear();
  AppendChildren(*value, children_);
  int depth = 1;
  for (const Value* child : children_) {
    const int of_child = IsContainer(*child) ? depths_.lookup(child) : 1;
    depth = std::max(depth, of_child + 1);
  }
  if (depth > depth_limit_) {
    return Fail(ErrorCode::kBadData, "the pickle nests objects more than {} levels deep", depth_limit_);
  }
  depths_[value] = depth;
  if (const auto* dict = value->As<Dict>()) return CheckKeysDiffer(dict->entries);
  if (const auto* call = value->As<Call>()) return CheckKeysDiffer(call->entries);
  return llvm::Error::success();
}

}  // namespace

ValueBuilder::~ValueBuilder() {
  // Every container is still owned by `containers_` while it is emptied, so emptying one never destroys another.
  for (const std::shared_ptr<Value>& value : containers_) value->content_ = None{};
}

llvm::Error ValueBuilder::Finish(const ValuePtr& root, int depth_limit) {
  TreeCheck check(depth_limit);
  UCP_RETURN_IF_ERROR(check.Run(root.get()));
  for (const std::shared_ptr<Value>& value : containers_) {
    if (!check.reached(value.get())) value->content_ = None{};
  }
  containers_.clear();
  return llvm::Error::success();
}

}  // namespace ucp::pytorch
