#include "compiler/formats/pytorch/values/value_differences.h"

#include <fmt/format.h>
#include <llvm/ADT/DenseSet.h>

#include <unordered_map>
#include <utility>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::pytorch {
namespace {

constexpr std::size_t kMaxText = 120;
constexpr int kMaxDepth = 64;            // A hostile pickle nests without end;
constexpr std::size_t kMaxWholes = 256;  // and may share a large part among many.

std::string TextOf(const ValuePtr& value) {
  if (!value) return "missing";
  std::string text = Print(*value);
  if (text.size() <= kMaxText) return text;
  std::size_t end = kMaxText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // Not inside of a character.
  return text.substr(0, end) + "…";
}

std::string NameOf(const Value& key) {
  auto text = AsText(key);
  return text ? std::string(*text) : Print(key);
}

class Comparison {
 public:
  Comparison(ListLengths lengths, std::size_t most) : lengths_(lengths), most_(most) {}

  void Compare(const ValuePtr& a, const ValuePtr& b, const std::string& keys) {
    if (found_.size() >= most_ || a == b) return;
    if (a && b) {
      if (!seen_.insert({a.get(), b.get()}).second) return;
      if (depth_ < kMaxDepth) {
        ++depth_;
        const bool is_done = CompareEntries(a, b, keys) || CompareItems(a, b, keys);
        --depth_;
        if (is_done) return;
      }
      if (wholes_ == kMaxWholes) return;
      if (!AsDouble(*a) && !AsText(*a) && !AsBool(*a)) ++wholes_;
      if (Print(*a) == Print(*b)) return;
    }
    found_.push_back({keys, TextOf(a), TextOf(b)});
  }

  std::vector<ValueDifference> found() && { return std::move(found_); }

 private:
  static std::string Below(const std::string& keys, const std::string& key) {
    return keys.empty() ? key : keys + "." + key;
  }

  // Whether both are mappings, or objects of one class.
  bool CompareEntries(const ValuePtr& a, const ValuePtr& b, const std::string& keys) {
    const auto* of_a = Entries(*a);
    const auto* of_b = Entries(*b);
    if (of_a == nullptr && of_b == nullptr && ClassName(*a) == ClassName(*b)) {
      of_a = Attributes(*a);
      of_b = Attributes(*b);
    }
    if (of_a == nullptr || of_b == nullptr) return false;
    std::unordered_map<std::string, ValuePtr> others;
    for (const Entry& entry : *of_b) others.emplace(NameOf(*entry.key), entry.value);
    for (const Entry& entry : *of_a) {
      const std::string key = NameOf(*entry.key);
      auto other = others.find(key);
      Compare(entry.value, other == others.end() ? nullptr : other->second, Below(keys, key));
      if (other != others.end()) others.erase(other);
    }
    for (const Entry& entry : *of_b) {
      const std::string key = NameOf(*entry.key);
      if (others.contains(key)) Compare(nullptr, entry.value, Below(keys, key));
    }
    return true;
  }

  // Whether both are lists, and there is nothing more to say of them.
  bool CompareItems(const ValuePtr& a, const ValuePtr& b, const std::string& keys) {
    const auto* of_a = Items(*a);
    const auto* of_b = Items(*b);
    if (of_a == nullptr || of_b == nullptr) return false;
    if (of_a->size() != of_b->size()) return lengths_ == ListLengths::kMayDiffer;
    for (std::size_t i = 0; i < of_a->size(); ++i) Compare((*of_a)[i], (*of_b)[i], Below(keys, std::to_string(i)));
    return true;
  }

  const ListLengths lengths_;
  const std::size_t most_;
  llvm::DenseSet<std::pair<const Value*, const Value*>> seen_;
  int depth_ = 0;
  std::size_t wholes_ = 0;  // Values compared as a whole, other than numbers and texts.
  std::vector<ValueDifference> found_;
};

}  // namespace

std::vector<ValueDifference> DifferencesOf(const ValuePtr& a, const ValuePtr& b, ListLengths lengths,
                                           std::size_t most) {
  if (a == b || (a && b && Print(*a) == Print(*b))) return {};
  Comparison comparison(lengths, most);
  comparison.Compare(a, b, "");
  return std::move(comparison).found();
}

}  // namespace ucp::pytorch
