#include "tests/unit/compiler/planner/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ucp::oracle {
namespace {

using Random = std::mt19937_64;

std::int64_t Any(Random& random, std::int64_t last) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(last + 1));
}

// A tensor whose dimensions get their strides from the outermost one inwards.
struct Unplaced {
  std::vector<std::int64_t> shape;
  std::vector<std::size_t> order;  // Of its dimensions, the outermost first.
  ShardPiece* piece = nullptr;
};

std::int64_t OuterLength(const Unplaced& tensor, std::size_t depth) { return tensor.shape[tensor.order[depth]]; }

// Places what is within the first `depth` dimensions of each tensor, from `begin` on. The result is how many elements
// that takes, free ones included.
std::int64_t PlaceAll(std::vector<Unplaced>& tensors, std::size_t depth, std::int64_t begin, Random& random) {
  auto has_more = [&](const Unplaced& tensor) { return tensor.order.size() > depth; };
  bool go_together = tensors.size() > 1 && Any(random, 3) != 0 && std::all_of(tensors.begin(), tensors.end(), has_more);
  for (const Unplaced& tensor : tensors) {
    go_together = go_together && OuterLength(tensor, depth) == OuterLength(tensors.front(), depth) &&
                  OuterLength(tensor, depth) > 0;
  }
  if (tensors.size() == 1 && has_more(tensors.front()) && OuterLength(tensors.front(), depth) == 0) {
    for (std::size_t d = depth; d < tensors.front().order.size(); ++d) {
      tensors.front().piece->strides[tensors.front().order[d]] = 1;
    }
    tensors.front().piece->begin = begin;
    return 0;
  }
  if (go_together || (tensors.size() == 1 && has_more(tensors.front()))) {
    const std::int64_t inner = std::max<std::int64_t>(PlaceAll(tensors, depth + 1, begin, random), 1) +
                               (Any(random, 5) == 0 ? Any(random, 2) : 0);
    for (Unplaced& tensor : tensors) tensor.piece->strides[tensor.order[depth]] = inner;
    return inner * OuterLength(tensors.front(), depth);
  }
  if (tensors.size() == 1) {
    tensors.front().piece->begin = begin;
    return 1;
  }
  std::int64_t taken = 0;
  for (const Unplaced& tensor : tensors) {
    std::vector<Unplaced> alone = {tensor};
    taken += PlaceAll(alone, depth, begin + taken, random) + (Any(random, 5) == 0 ? 1 : 0);
  }
  return taken;
}

// Rows of tensors with equal rows, in any order: their sets have the shard's shape.
bool MixRows(LocalTensor& fused, const std::vector<LocalTensor>& tensors, Random& random) {
  std::vector<std::size_t> owner;  // Of each row of the shard.
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::vector<std::int64_t>& shape = tensors[t].shape;
    const std::vector<std::int64_t>& first = tensors.front().shape;
    if (shape.empty() || !std::equal(shape.begin() + 1, shape.end(), first.begin() + 1, first.end())) return false;
    owner.insert(owner.end(), static_cast<std::size_t>(shape[0]), t);
  }
  std::shuffle(owner.begin(), owner.end(), random);
  fused.shape = tensors.front().shape;
  fused.shape[0] = std::ssize(owner);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    Selection rows;
    const ProductSet& set = fused.pieces[t].set;
    std::int64_t next = 0;
    for (std::size_t row : owner) {
      const Selection one = row == t ? set.dims[0].Slice(next, next + 1) : Selection();
      next += row == t ? 1 : 0;
      if (one.runs().empty()) {
        rows.AppendPadding(1);
      } else {
        rows.Append(one.runs()[0].logical_begin, 1);
      }
    }
    fused.pieces[t].set.dims[0] = rows;
    fused.pieces[t].strides.clear();
  }
  std::vector<std::size_t> next(tensors.size(), 0);
  for (std::size_t row : owner) {
    const List& elements = tensors[row].elements;
    const std::size_t length = elements.size() / static_cast<std::size_t>(tensors[row].shape[0]);
    const auto from = elements.begin() + static_cast<std::ptrdiff_t>(next[row]++ * length);
    fused.elements.insert(fused.elements.end(), from, from + static_cast<std::ptrdiff_t>(length));
  }
  return true;
}

void PutInPlace(LocalTensor& fused, const LocalTensor& tensor, const ShardPiece& piece) {
  for (std::size_t i = 0; i < tensor.elements.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t place = piece.begin;
    for (std::size_t d = tensor.shape.size(); d-- > 0; rest /= tensor.shape[d]) {
      place += rest % tensor.shape[d] * piece.strides[d];
    }
    fused.elements[static_cast<std::size_t>(place)] = tensor.elements[i];
  }
}

LocalTensor Fused(std::string name, std::vector<LocalTensor> tensors, Random& random,
                  llvm::function_ref<ProductSet(const std::string&)> set_of) {
  LocalTensor fused{std::move(name), {}, {}, {}};
  for (const LocalTensor& tensor : tensors) {
    fused.pieces.push_back({tensor.name, set_of(tensor.name), 0, std::vector<std::int64_t>(tensor.shape.size(), 1)});
  }
  if (Any(random, 2) == 0 && MixRows(fused, tensors, random)) return fused;
  std::vector<Unplaced> unplaced;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    unplaced.push_back({tensors[t].shape, std::vector<std::size_t>(tensors[t].shape.size()), &fused.pieces[t]});
    std::iota(unplaced.back().order.begin(), unplaced.back().order.end(), std::size_t{0});
    if (Any(random, 1) == 0) std::shuffle(unplaced.back().order.begin(), unplaced.back().order.end(), random);
  }
  std::shuffle(unplaced.begin(), unplaced.end(), random);
  const std::int64_t begin = Any(random, 4) == 0 ? 1 : 0;
  const std::int64_t elements = begin + PlaceAll(unplaced, 0, begin, random);
  fused.elements.assign(static_cast<std::size_t>(elements), -1);
  for (std::size_t t = 0; t < tensors.size(); ++t) PutInPlace(fused, tensors[t], fused.pieces[t]);
  fused.shape = {elements};
  for (std::int64_t rows : {2, 3, 4}) {
    if (elements % rows == 0 && Any(random, 2) == 0) fused.shape = {rows, elements / rows};
  }
  return fused;
}

}  // namespace

std::vector<LocalTensor> FuseSome(std::vector<LocalTensor> tensors, std::mt19937_64& random,
                                  llvm::function_ref<ProductSet(const std::string&)> set_of,
                                  llvm::function_ref<std::int64_t(const std::string&)> terms_of) {
  std::vector<LocalTensor> result;
  while (!tensors.empty()) {
    std::vector<LocalTensor> together = {std::move(tensors.back())};
    tensors.pop_back();
    const std::int64_t terms = terms_of(together.front().name);
    for (std::size_t t = tensors.size(); t-- > 0;) {
      if (terms_of(tensors[t].name) != terms || Any(random, 3) == 0) continue;
      together.push_back(std::move(tensors[t]));
      tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(t));
    }
    if (Any(random, 5) == 0) {
      for (LocalTensor& tensor : together) result.push_back(std::move(tensor));
    } else {
      result.push_back(Fused(fmt::format("f{}", result.size()), std::move(together), random, set_of));
    }
  }
  return result;
}

}  // namespace ucp::oracle
