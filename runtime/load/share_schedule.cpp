// Quotas: sets with few members have the least choice and come first; each fills up those of its members that have the
// least so far, like water.
//
// Rounds: a turn is half a round's bytes, so that with a piece too much of each member it is still a round's at most.
// Turns go into the first round that has room for them at all members, and those of one set one after the other. Sets
// that have no rank in common are exchanged at the same time, and a rank of many small sets has many of them in one
// round.
#include "runtime/load/share_schedule.h"

#include <algorithm>
#include <numeric>

#include "compiler/support/check.h"

namespace ucp {
namespace {

// The shares that raise the members' loads to one level, as far as `cost` goes.
std::vector<std::uint64_t> Fill(const std::vector<std::uint64_t>& loads, std::uint64_t cost) {
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t member) { return loads[member]; });
  std::uint64_t count = 0;  // The lowest ones, which are filled up to a level.
  std::uint64_t sum = cost;
  for (std::size_t member : order) {
    if (count > 0 && loads[member] >= sum / count) break;
    sum += loads[member];
    ++count;
  }
  std::vector<std::uint64_t> quotas(loads.size(), 0);
  std::uint64_t left = cost;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t level = sum / count + (i < sum % count ? 1 : 0);
    const std::uint64_t quota = std::min(left, level - std::min(level, loads[order[i]]));
    quotas[order[i]] = quota;
    left -= quota;
  }
  quotas[order.front()] += left;
  return quotas;
}

}  // namespace

std::vector<std::vector<std::uint64_t>> QuotasOf(std::span<const SharedBytes> sets,
                                                 std::span<const std::uint64_t> alone) {
  std::vector<std::size_t> order(sets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t set) { return sets[set].ranks.size(); });
  std::vector<std::uint64_t> loads(alone.begin(), alone.end());
  std::vector<std::vector<std::uint64_t>> quotas(sets.size());
  for (std::size_t set : order) {
    std::vector<std::uint64_t> of_members;
    for (int rank : sets[set].ranks) of_members.push_back(loads[static_cast<std::size_t>(rank)]);
    quotas[set] = Fill(of_members, sets[set].cost);
    for (std::size_t member = 0; member < of_members.size(); ++member) {
      loads[static_cast<std::size_t>(sets[set].ranks[member])] += quotas[set][member];
    }
  }
  return quotas;
}

std::uint64_t PieceBytesOf(const SharedBytes& set, std::uint64_t round_bytes) {
  return round_bytes / 2 / set.ranks.size();
}

ExchangeSchedule MakeSchedule(std::span<const SharedBytes> sets, int ranks, std::uint64_t round_bytes) {
  UCP_CHECK(round_bytes > 1, "rounds of {} bytes", round_bytes);
  const std::uint64_t turn_bytes = round_bytes / 2;
  std::vector<std::vector<std::uint64_t>> taken(static_cast<std::size_t>(ranks));  // By rank and round.
  auto bytes_of = [&](int rank, std::uint32_t round) -> std::uint64_t& {
    std::vector<std::uint64_t>& own = taken[static_cast<std::size_t>(rank)];
    if (own.size() <= round) own.resize(round + 1, 0);
    return own[round];
  };
  ExchangeSchedule schedule;
  for (const SharedBytes& set : sets) {
    const std::uint64_t turns = std::max<std::uint64_t>(1, (set.bytes + turn_bytes - 1) / turn_bytes);
    // One turn can have a piece too much of each member, and no more than all.
    const std::uint64_t most = std::min(set.bytes, (set.bytes + turns - 1) / turns + turn_bytes);
    std::vector<std::uint32_t>& rounds = schedule.rounds_of_set.emplace_back();
    std::uint32_t round = 0;
    for (std::uint64_t turn = 0; turn < turns; ++turn) {
      auto is_full = [&](int rank) { return bytes_of(rank, round) + most > round_bytes; };
      while (std::any_of(set.ranks.begin(), set.ranks.end(), is_full)) ++round;
      for (int rank : set.ranks) bytes_of(rank, round) += most;
      rounds.push_back(round);
      schedule.rounds = std::max(schedule.rounds, round + 1);
      ++round;
    }
  }
  return schedule;
}

}  // namespace ucp
