// Making one number, id or row of a table wrong.
#pragma once

#include <limits>
#include <vector>

#include "compiler/support/typed_id.h"
#include "tests/unit/compiler/planner/conversion.h"

namespace ucp::oracle {

// Mostly a small step, at times an end of the range.
inline std::int64_t Disturbed(Random& random, std::int64_t number) {
  constexpr std::int64_t kFar[] = {0,
                                   -1,
                                   1,
                                   std::int64_t{1} << 31,
                                   std::int64_t{1} << 60,
                                   std::int64_t{1} << 62,
                                   std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min()};
  if (Pick(random, 0, 3) == 0) return kFar[Pick(random, 0, 7)];
  std::int64_t step = Pick(random, 1, 3);
  auto moved = static_cast<std::uint64_t>(number) + static_cast<std::uint64_t>(Pick(random, 0, 1) == 0 ? step : -step);
  return static_cast<std::int64_t>(moved);
}

inline void Disturb(Random& random, std::int64_t& number) { number = Disturbed(random, number); }

inline void Disturb(Random& random, std::uint64_t& number) {
  number = static_cast<std::uint64_t>(Disturbed(random, static_cast<std::int64_t>(number)));
}

template <typename Tag>
void Disturb(Random& random, TypedId<Tag>& id) {
  id = TypedId<Tag>(static_cast<std::size_t>(Disturbed(random, static_cast<std::int64_t>(id.index()))));
}

// Of an empty table, a row that nobody keeps.
template <typename Item>
Item& Any(Random& random, std::vector<Item>& items) {
  static Item spare;
  if (items.empty()) return spare = Item();
  return items[static_cast<std::size_t>(Pick(random, 0, std::ssize(items) - 1))];
}

// Removes, doubles or exchanges rows of a table.
template <typename Item>
void Shuffle(Random& random, std::vector<Item>& items) {
  if (items.empty()) return;
  auto at = items.begin() + Pick(random, 0, std::ssize(items) - 1);
  switch (Pick(random, 0, 2)) {
    case 0:
      items.erase(at);
      return;
    case 1:
      items.insert(at, Item(*at));
      return;
    default:
      std::swap(*at, Any(random, items));
  }
}

struct KindOfDamage {
  const char* name;
  void (*apply)(Plan&, Random&);
};

// Damage to the files of a plan and to its request, which leaves its geometry sound: damage_meaning.cpp.
std::vector<KindOfDamage> DamageOfMeaning();

}  // namespace ucp::oracle
