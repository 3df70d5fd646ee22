#include "compiler/bind/moved_elements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

namespace ucp {
namespace {

using Shape = std::vector<std::int64_t>;

std::map<std::string_view, const Shape*> ShapesOf(const LayoutOfModel& layout) {
  std::map<std::string_view, const Shape*> shapes;
  for (std::size_t t = 0; t < layout.bound.tensors.size(); ++t) {
    shapes.emplace(layout.bound.tensors[t].name, &layout.stored.shapes[t]);
  }
  return shapes;
}

std::int64_t Product(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t length : shape) product *= length;
  return product;
}

// Tensors that are moved in one way: how many, and one of them.
struct Kind {
  std::size_t count = 0;
  std::size_t unseen = 0;  // Those of a source's shape.
  std::string example;

  void Add(const std::string& target, const std::string& source, bool is_unseen = false) {
    if (count == 0) example = fmt::format("`{}` of `{}`", target, source);
    ++count;
    unseen += is_unseen ? 1 : 0;
  }
};

enum class Order { kSame, kWithinDimension, kOfDimensions };

// Whether factors that are loops on both sides follow one another in the same order.
Order OrderOf(const CommonElements& elements) {
  std::vector<CommonElements::Loop> loops;
  for (const CommonElements::Loop& loop : elements.loops) {
    if (loop.count > 1) loops.push_back(loop);
  }
  std::ranges::sort(loops, {}, [](const auto& loop) { return std::tuple(loop.source_dim, -loop.source_stride); });
  Order order = Order::kSame;
  for (std::size_t a = 0; a < loops.size(); ++a) {
    for (std::size_t b = a + 1; b < loops.size(); ++b) {
      const auto place = [](const auto& loop) { return std::tuple(loop.target_dim, -loop.target_stride); };
      if (place(loops[a]) < place(loops[b])) continue;
      if (loops[a].source_dim != loops[b].source_dim) return Order::kOfDimensions;
      order = Order::kWithinDimension;
    }
  }
  return order;
}

Order OrderOf(const std::vector<CommonElements>& elements) {
  Order order = Order::kSame;
  for (const CommonElements& some : elements) order = std::max(order, OrderOf(some));
  return order;
}

std::string_view Have(const Kind& kind) { return kind.count == 1 ? "has" : "have"; }

std::string_view Are(const Kind& kind) { return kind.count == 1 ? "is" : "are"; }

// Appends ", and no shape shows it" or the like.
std::string Clause(const Kind& kind, std::string_view words) {
  std::string text = fmt::format("{} {} {}, such as {}", kind.count, Have(kind), words, kind.example);
  if (kind.unseen == kind.count) return text + ", and no shape shows it";
  return kind.unseen == 0 ? text : text + fmt::format(", and the shapes of {} do not show it", kind.unseen);
}

}  // namespace

std::string TextOfMoves(const LayoutOfModel& source, const LayoutOfModel& target, const CommonOfTensors& common) {
  const auto source_shapes = ShapesOf(source);
  const auto target_shapes = ShapesOf(target);
  Kind plain;
  Kind joined;
  Kind parts;
  Kind reordered;
  Kind transposed;
  for (const auto& [name, elements] : common) {
    const std::string& first = elements.front().source;
    const bool is_joined = std::ranges::any_of(elements, [&](const auto& some) { return some.source != first; });
    const Shape& from = *source_shapes.at(first);
    const Shape& to = *target_shapes.at(name);
    const bool is_part = !is_joined && Product(to) < Product(from);
    const Order order = OrderOf(elements);
    if (is_joined) joined.Add(name, first);
    if (is_part) parts.Add(name, first);
    if (order == Order::kWithinDimension) reordered.Add(name, first, from == to);
    if (order == Order::kOfDimensions) transposed.Add(name, first, from == to);
    if (!is_joined && !is_part && order == Order::kSame) plain.Add(name, first);
  }
  std::vector<std::string> clauses;
  if (plain.count != 0)
    clauses.push_back(fmt::format("{} {} the elements of one tensor in their order", plain.count, Have(plain)));
  if (joined.count != 0) clauses.push_back(fmt::format("{} {} put together of several", joined.count, Are(joined)));
  if (parts.count != 0) clauses.push_back(fmt::format("{} {} part of one", parts.count, Are(parts)));
  if (reordered.count != 0) clauses.push_back(Clause(reordered, "another order within a dimension"));
  if (transposed.count != 0) clauses.push_back(Clause(transposed, "another order of dimensions"));
  return fmt::format("of {} tensors of the layout `{}`, {}", common.size(), target.bound.spec.layout_name,
                     fmt::join(clauses, "; "));
}

}  // namespace ucp
