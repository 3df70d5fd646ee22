#include "compiler/bind/lower/local_lengths.h"

#include <algorithm>

#include "compiler/support/checked_math.h"

namespace ucp {
namespace {

// How many entries a table over `axes` has; nothing if they are too many.
std::optional<std::int64_t> EntriesOf(const std::vector<Axis>& axes) {
  std::optional<std::int64_t> entries = 1;
  for (const Axis& axis : axes) {
    entries = CheckedMultiply(*entries, axis.size);
    if (!entries || *entries > kMaxLocalLengths) return std::nullopt;
  }
  return entries;
}

// A table over two or more coordinates whose entries are all equal is one number.
LocalLengths Tidy(LocalLengths table) {
  auto differs = [&](std::int64_t length) { return length != table.lengths.front(); };
  if (table.lengths.empty() || std::any_of(table.lengths.begin(), table.lengths.end(), differs)) return table;
  return LocalLengths::Same(table.lengths.front());
}

}  // namespace

std::optional<std::int64_t> LocalLengths::At(const Coordinate& coordinate) const {
  std::int64_t entry = 0;
  for (const Axis& axis : axes) {
    std::int64_t at = coordinate.At(axis.name);
    if (at < 0 || at >= axis.size) return std::nullopt;
    entry = entry * axis.size + at;
  }
  return lengths[static_cast<std::size_t>(entry)];
}

Coordinate LocalLengths::CoordinateOf(std::size_t entry) const {
  Coordinate coordinate;
  auto rest = static_cast<std::int64_t>(entry);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    coordinate.at[axis->name] = rest % axis->size;
    rest /= axis->size;
  }
  return coordinate;
}

std::optional<LocalLengths> Combine(const LocalLengths& a, const LocalLengths& b, CombineLengths combine) {
  LocalLengths both{a.axes};
  for (const Axis& axis : b.axes) {
    if (std::find(a.axes.begin(), a.axes.end(), axis) == a.axes.end()) both.axes.push_back(axis);
  }
  auto entries = EntriesOf(both.axes);
  if (!entries) return std::nullopt;
  for (std::int64_t entry = 0; entry < *entries; ++entry) {
    Coordinate coordinate = both.CoordinateOf(static_cast<std::size_t>(entry));
    auto length = combine(*a.At(coordinate), *b.At(coordinate));
    if (!length) return std::nullopt;
    both.lengths.push_back(*length);
  }
  return Tidy(std::move(both));
}

std::optional<LocalLengths> CutLengths(const LocalLengths& inner, const std::vector<Axis>& axes, WidthAt width) {
  LocalLengths cut{inner.axes};
  cut.axes.insert(cut.axes.end(), axes.begin(), axes.end());
  auto entries = EntriesOf(cut.axes);
  if (!entries) return std::nullopt;
  std::int64_t degree = *entries / static_cast<std::int64_t>(inner.lengths.size());
  for (std::int64_t places : inner.lengths) {
    for (std::int64_t index = 0; index < degree; ++index) {
      auto length = width(places, index);
      if (!length) return std::nullopt;
      cut.lengths.push_back(*length);
    }
  }
  return Tidy(std::move(cut));
}

}  // namespace ucp
