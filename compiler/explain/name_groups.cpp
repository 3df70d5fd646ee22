// Names of one kind that are equal but for their numbers lie on a grid, one axis for each number. If every place of the
// grid is taken, the grid is the group; if not, it is split along its first axis that has several numbers, and each
// part is looked at again.
#include "compiler/explain/name_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace ucp {
namespace {

constexpr std::size_t kMostDigits = 9;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "layers.3.w1" is the texts "layers.", ".w" and "" around the numbers 3 and 1.
struct Split {
  std::vector<std::string> texts;
  std::vector<std::int64_t> numbers;
};

Split SplitName(const std::string& name) {
  Split split;
  std::string text;
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at;
    while (end < name.size() && IsDigit(name[end])) ++end;
    bool prints_back = end == at + 1 || (end > at && name[at] != '0');
    if (prints_back && end - at <= kMostDigits) {
      split.texts.push_back(std::move(text));
      text.clear();
      split.numbers.push_back(std::stoll(name.substr(at, end - at)));
    } else {
      end = std::max(end, at + 1);
      text += name.substr(at, end - at);
    }
    at = end;
  }
  split.texts.push_back(std::move(text));
  return split;
}

// "{0-3,5}", or the number itself if there is one.
std::string NumbersText(const std::set<std::int64_t>& numbers) {
  std::vector<std::string> ranges;
  for (auto begin = numbers.begin(); begin != numbers.end();) {
    auto last = begin;
    while (std::next(last) != numbers.end() && *std::next(last) == *last + 1) ++last;
    ranges.push_back(begin == last ? fmt::format("{}", *begin) : fmt::format("{}-{}", *begin, *last));
    begin = std::next(last);
  }
  std::string text = fmt::format("{}", fmt::join(ranges, ","));
  return numbers.size() == 1 ? text : "{" + text + "}";
}

class Grouping {
 public:
  explicit Grouping(const std::vector<NameOfKind>& names) {
    std::map<std::pair<std::string, std::vector<std::string>>, std::vector<std::size_t>> grids;
    for (const NameOfKind& name : names) {
      splits_.push_back(SplitName(name.name));
      grids[{name.kind, splits_.back().texts}].push_back(splits_.size() - 1);
    }
    for (auto& [key, members] : grids) Gather(std::move(members));
    std::sort(groups_.begin(), groups_.end(),
              [](const NameGroup& a, const NameGroup& b) { return a.members.front() < b.members.front(); });
  }

  std::vector<NameGroup> Take() { return std::move(groups_); }

 private:
  void Gather(std::vector<std::size_t> members) {
    const Split& first = splits_[members.front()];
    std::vector<std::set<std::int64_t>> axes(first.numbers.size());
    for (std::size_t member : members) {
      for (std::size_t i = 0; i < axes.size(); ++i) axes[i].insert(splits_[member].numbers[i]);
    }
    std::size_t places = 1;
    for (const auto& axis : axes) places = std::min(places * axis.size(), members.size() + 1);
    if (places > members.size()) return SplitAlong(axes, members);
    std::string name;
    for (std::size_t i = 0; i < axes.size(); ++i) name += first.texts[i] + NumbersText(axes[i]);
    groups_.push_back({name + first.texts.back(), std::move(members)});
  }

  void SplitAlong(const std::vector<std::set<std::int64_t>>& axes, const std::vector<std::size_t>& members) {
    std::size_t several = 0;
    while (axes[several].size() == 1) ++several;
    std::map<std::int64_t, std::vector<std::size_t>> parts;
    for (std::size_t member : members) parts[splits_[member].numbers[several]].push_back(member);
    for (auto& [number, part] : parts) Gather(std::move(part));
  }

  std::vector<Split> splits_;
  std::vector<NameGroup> groups_;
};

}  // namespace

std::vector<NameGroup> GroupNames(const std::vector<NameOfKind>& names) { return Grouping(names).Take(); }

}  // namespace ucp
