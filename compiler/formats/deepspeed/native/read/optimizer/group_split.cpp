#include "compiler/formats/deepspeed/native/read/optimizer/group_split.h"

#include <algorithm>
#include <functional>
#include <map>

namespace ucp::deepspeed {
namespace {

// A walk over all splits that ends as soon as it has seen two.
class InOrder {
 public:
  InOrder(std::span<const std::int64_t> sizes, std::span<const GroupRoom> rooms)
      : sizes_(sizes), rooms_(rooms), is_dead_(rooms.size() + 1, std::vector<bool>(sizes.size() + 1)) {}

  GroupSplit Find() {
    Walk(0, 0);
    return found_.size() == 1 ? GroupSplit(found_.front()) : std::nullopt;
  }

 private:
  // Returns whether some split of what begins at `begin` fits the groups from `group` on.
  bool Walk(std::size_t group, std::size_t begin) {
    if (found_.size() > 1 || is_dead_[group][begin]) return false;
    if (group == rooms_.size()) {
      if (begin < sizes_.size()) return false;
      found_.push_back(groups_);
      return true;
    }
    bool fits = false;
    std::int64_t sum = 0;
    const std::size_t kept = groups_.size();
    for (std::size_t end = begin; sum <= rooms_[group].most; ++end) {
      const bool may_end = end > begin && (end == sizes_.size() || sizes_[end] > 0);
      if (may_end && sum >= rooms_[group].least) fits = Walk(group + 1, end) || fits;
      if (end == sizes_.size()) break;
      sum += sizes_[end];
      groups_.push_back(group);
    }
    groups_.resize(kept);
    is_dead_[group][begin] = !fits;
    return fits;
  }

  const std::span<const std::int64_t> sizes_;
  const std::span<const GroupRoom> rooms_;
  std::vector<std::vector<bool>> is_dead_;  // By group and first parameter: nothing fits from there on.
  std::vector<std::size_t> groups_;
  std::vector<std::vector<std::size_t>> found_;
};

class BySizes {
 public:
  BySizes(std::span<const std::int64_t> sizes, std::span<const GroupRoom> rooms)
      : sizes_(sizes), rooms_(rooms), used_(rooms.size()) {
    for (const std::int64_t size : sizes) {
      if (size > 0) ++count_of_[size];
      left_ += size;
    }
  }

  GroupSplit Find() {
    if (rooms_.empty()) return std::nullopt;
    Walk(count_of_.begin(), 0, count_of_.empty() ? 0 : count_of_.begin()->second);
    if (ways_ != 1 || is_mixed_) return std::nullopt;
    std::vector<std::size_t> groups;
    for (const std::int64_t size : sizes_) groups.push_back(size > 0 ? group_of_found_.at(size) : 0);
    return groups;
  }

 private:
  using Classes = std::map<std::int64_t, std::int64_t, std::greater<>>;  // By size, the largest first: how many.

  bool IsOver() const { return ways_ > 1 || is_mixed_; }

  // Deals `count` parameters of a class out to the groups from `group` on, and then the classes behind it.
  void Walk(Classes::const_iterator of, std::size_t group, std::int64_t count) {
    constexpr std::int64_t kMostTries = 1'000'000;
    if (IsOver()) return;
    if (++tries_ > kMostTries) {
      is_mixed_ = true;
      return;
    }
    if (of == count_of_.end()) {
      NoteWay();
      return;
    }
    if (count == 0) {
      auto next = std::next(of);
      Walk(next, 0, next == count_of_.end() ? 0 : next->second);
      return;
    }
    if (group == rooms_.size()) return;
    std::int64_t missing = 0;
    for (std::size_t g = 0; g < rooms_.size(); ++g) missing += std::max<std::int64_t>(0, rooms_[g].least - used_[g]);
    if (missing > left_) return;
    const std::int64_t fit = (rooms_[group].most - used_[group]) / of->first;
    for (std::int64_t taken = std::min(count, fit); taken >= 0 && !IsOver(); --taken) {
      used_[group] += taken * of->first;
      left_ -= taken * of->first;
      taken_.emplace_back(of->first, group, taken);
      Walk(of, group + 1, count - taken);
      taken_.pop_back();
      left_ += taken * of->first;
      used_[group] -= taken * of->first;
    }
  }

  void NoteWay() {
    for (std::size_t g = 0; g < rooms_.size(); ++g) {
      if (used_[g] < rooms_[g].least) return;
    }
    ++ways_;
    for (const auto& [size, group, taken] : taken_) {
      if (taken == 0) continue;
      is_mixed_ = is_mixed_ || taken != count_of_.at(size);
      group_of_found_[size] = group;
    }
  }

  struct Taken {
    std::int64_t size;
    std::size_t group;
    std::int64_t count;
    Taken(std::int64_t s, std::size_t g, std::int64_t c) : size(s), group(g), count(c) {}
  };

  const std::span<const std::int64_t> sizes_;
  const std::span<const GroupRoom> rooms_;
  Classes count_of_;
  std::int64_t left_ = 0;  // Elements of the parameters that no group has yet.
  std::vector<std::int64_t> used_;
  std::vector<Taken> taken_;
  std::map<std::int64_t, std::size_t> group_of_found_;
  std::int64_t tries_ = 0;
  int ways_ = 0;
  bool is_mixed_ = false;  // Parameters of one size are in several groups, or the tries were used up.
};

}  // namespace

GroupSplit SplitInOrder(std::span<const std::int64_t> sizes, std::span<const GroupRoom> rooms) {
  return InOrder(sizes, rooms).Find();
}

GroupSplit SplitBySizes(std::span<const std::int64_t> sizes, std::span<const GroupRoom> rooms) {
  return BySizes(sizes, rooms).Find();
}

}  // namespace ucp::deepspeed
