#include "runtime/memory_tier/placement.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>

#include "compiler/support/error.h"

namespace ucp {
namespace {

// Round robin over the domains, the largest first: machines of one domain are as far apart as possible.
std::vector<std::int64_t> OrderByDomain(std::int64_t machines, llvm::ArrayRef<std::string> domains) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(machines));
  std::iota(order.begin(), order.end(), 0);
  if (domains.empty()) return order;
  std::map<std::string, std::deque<std::int64_t>> of_domain;
  for (std::int64_t machine : order) of_domain[domains[static_cast<std::size_t>(machine)]].push_back(machine);
  std::vector<std::deque<std::int64_t>*> by_size;
  for (auto& [domain, members] : of_domain) by_size.push_back(&members);
  std::ranges::stable_sort(by_size, std::greater(), [](const auto* members) { return members->size(); });
  order.clear();
  while (std::ssize(order) < machines) {
    for (std::deque<std::int64_t>* members : by_size) {
      if (members->empty()) continue;
      order.push_back(members->front());
      members->pop_front();
    }
  }
  return order;
}

// Probabilities that nothing is lost for good, by the number of machines that are lost, up to a largest one. Each
// machine is lost by itself with probability p; the condition on their number, at the end, makes the choice of p
// irrelevant.
using Polynomial = std::vector<double>;

class Chances {
 public:
  Chances(double p, std::int64_t most) : p_(p), size_(static_cast<std::size_t>(most) + 1) {}

  Polynomial One() const {
    Polynomial one(size_);
    one[0] = 1;
    return one;
  }

  Polynomial Times(const Polynomial& a, const Polynomial& b) const {
    Polynomial product(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; a[i] != 0 && i + j < size_; ++j) product[i + j] += a[i] * b[j];
    }
    return product;
  }

  Polynomial Power(Polynomial base, std::int64_t exponent) const {
    Polynomial power = One();
    for (; exponent > 0; exponent /= 2) {
      if (exponent % 2 == 1) power = Times(power, base);
      base = Times(base, base);
    }
    return power;
  }

  // Any number of `machines`, but for all of them where there are as many as `fatal`.
  Polynomial Any(std::int64_t machines, std::int64_t fatal) const {
    Polynomial machine = Run(0);
    if (size_ > 1) machine[1] = p_;
    Polynomial any = Power(machine, machines);
    if (machines == fatal && static_cast<std::size_t>(machines) < size_) any[static_cast<std::size_t>(machines)] = 0;
    return any;
  }

  // A line of `length` without `fatal` lost neighbours, of each length up to this one: it begins with a run of lost
  // ones, and one that is not lost.
  std::vector<Polynomial> Lines(std::int64_t length, std::int64_t fatal) const {
    std::vector<Polynomial> lines;
    for (std::int64_t n = 0; n <= length; ++n) {
      if (n < fatal) {
        lines.push_back(Any(n, fatal));
        continue;
      }
      Polynomial line(size_);
      for (std::int64_t a = 0; a < fatal; ++a) Add(Times(Run(a), lines[static_cast<std::size_t>(n - a - 1)]), line);
      lines.push_back(std::move(line));
    }
    return lines;
  }

  // A circle, cut at some place: lost ones before it and behind it are one run.
  Polynomial Circle(std::int64_t length, std::int64_t fatal) const {
    const std::vector<Polynomial> lines = Lines(length, fatal);
    Polynomial circle(size_);
    for (std::int64_t before = 0; before < fatal; ++before) {
      for (std::int64_t behind = 0; before + behind < fatal; ++behind) {
        const Polynomial& rest = lines[static_cast<std::size_t>(length - before - behind - 2)];
        Add(Times(Times(Run(before), Run(behind)), rest), circle);
      }
    }
    return circle;
  }

 private:
  // So many lost ones, and one that is not.
  Polynomial Run(std::int64_t lost) const {
    Polynomial run(size_);
    double chance = 1 - p_;
    for (std::int64_t i = 0; i < lost; ++i) chance *= p_;
    if (static_cast<std::size_t>(lost) < size_) run[static_cast<std::size_t>(lost)] = chance;
    return run;
  }

  static void Add(const Polynomial& more, Polynomial& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }

  const double p_;
  const std::size_t size_;
};

}  // namespace

llvm::Expected<Placement> PlaceMachines(std::int64_t machines, std::int64_t copies,
                                        llvm::ArrayRef<std::string> domains) {
  if (machines < 1 || copies < 1 || copies > machines) {
    return Fail(ErrorCode::kUsage, "{} copies of each state on {} machines: there are 1 to as many as machines", copies,
                machines);
  }
  if (!domains.empty() && std::ssize(domains) != machines) {
    return Fail(ErrorCode::kUsage, "{} machines and {} failure domains: each machine has one", machines,
                domains.size());
  }
  Placement placement;
  placement.order = OrderByDomain(machines, domains);
  placement.copies = copies;
  placement.groups = machines / copies;
  if (machines % copies != 0) --placement.groups;
  placement.ring = machines - placement.groups * copies;
  return placement;
}

std::vector<std::int64_t> KeepersOf(const Placement& placement, std::int64_t place) {
  const std::int64_t k = placement.copies;
  const std::int64_t in_groups = placement.groups * k;
  std::vector<std::int64_t> keepers = {place};
  for (std::int64_t i = 1; i < k; ++i) {
    keepers.push_back(place < in_groups ? place / k * k + (place + i) % k
                                        : in_groups + (place - in_groups + placement.ring - i) % placement.ring);
  }
  return keepers;
}

bool IsRecoverable(const Placement& placement, llvm::ArrayRef<std::int64_t> lost) {
  const std::set<std::int64_t> lost_machines(lost.begin(), lost.end());
  const auto is_lost = [&](std::int64_t place) {
    return lost_machines.contains(placement.order[static_cast<std::size_t>(place)]);
  };
  for (std::int64_t place = 0; place < std::ssize(placement.order); ++place) {
    if (std::ranges::all_of(KeepersOf(placement, place), is_lost)) return false;
  }
  return true;
}

double ChanceOfRecovery(const Placement& placement, std::int64_t lost) {
  const auto machines = std::ssize(placement.order);
  if (lost < placement.copies) return 1;
  if (lost >= machines) return 0;
  const double p = static_cast<double>(lost) / static_cast<double>(machines);
  const Chances chances(p, lost);
  Polynomial nothing_lost = chances.Power(chances.Any(placement.copies, placement.copies), placement.groups);
  if (placement.ring > 0) nothing_lost = chances.Times(nothing_lost, chances.Circle(placement.ring, placement.copies));
  return nothing_lost.back() / chances.Any(machines, machines + 1).back();
}

}  // namespace ucp
