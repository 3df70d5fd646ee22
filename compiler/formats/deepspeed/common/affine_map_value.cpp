#include "compiler/formats/deepspeed/common/affine_map_value.h"

#include <charconv>
#include <string_view>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp {
namespace {

using pytorch::Value;
using pytorch::ValuePtr;

// [offset, strides]
std::optional<AffineView> ReadView(const Value& value) {
  const auto* items = pytorch::Items(value);
  if (items == nullptr || items->size() != 2) return std::nullopt;
  auto offset = pytorch::AsInteger(*(*items)[0]);
  auto strides = pytorch::AsIntegers(*(*items)[1]);
  if (!offset || !strides) return std::nullopt;
  return AffineView{*offset, std::move(*strides)};
}

std::optional<AffinePiece> ReadPiece(const Value& value) {
  ValuePtr shape = pytorch::Find(value, "shape");
  ValuePtr source = pytorch::Find(value, "source");
  ValuePtr dest = pytorch::Find(value, "dest");
  ValuePtr locations = pytorch::Find(value, "locations");
  ValuePtr scale = pytorch::Find(value, "scale");
  if (shape == nullptr || source == nullptr || dest == nullptr) return std::nullopt;
  auto sizes = pytorch::AsIntegers(*shape);
  auto from = ReadView(*source);
  auto to = ReadView(*dest);
  if (!sizes || !from || !to) return std::nullopt;
  AffinePiece piece{std::move(*sizes), std::move(*from), std::move(*to), {}, 1.0};
  if (locations != nullptr) {
    auto ranks = pytorch::AsIntegers(*locations);
    if (!ranks) return std::nullopt;
    piece.locations = std::move(*ranks);
  }
  if (scale != nullptr) piece.scale = pytorch::AsDouble(*scale).value_or(0);
  if (piece.scale == 0) return std::nullopt;
  return piece;
}

std::optional<AffineShard> ReadShard(const Value& value) {
  AffineShard shard;
  ValuePtr shape = pytorch::Find(value, "shard_shape");
  ValuePtr pieces = pytorch::Find(value, "pieces");
  auto sizes = shape == nullptr ? std::nullopt : pytorch::AsIntegers(*shape);
  const auto* items = pieces == nullptr ? nullptr : pytorch::Items(*pieces);
  if (!sizes || items == nullptr) return std::nullopt;
  shard.shape = std::move(*sizes);
  for (const ValuePtr& item : *items) {
    auto piece = ReadPiece(*item);
    if (!piece) return std::nullopt;
    shard.pieces.push_back(std::move(*piece));
  }
  return shard;
}

// Ranks are numbers; what went through JSON has them as text.
std::optional<std::int64_t> RankOf(const Value& key) {
  if (auto number = pytorch::AsInteger(key)) return number;
  auto text = pytorch::AsText(key);
  std::int64_t rank = 0;
  if (!text) return std::nullopt;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), rank);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return rank;
}

ValuePtr Integers(const std::vector<std::int64_t>& numbers) {
  std::vector<ValuePtr> items;
  for (std::int64_t number : numbers) items.push_back(pytorch::MakeInteger(number));
  return pytorch::MakeList(std::move(items));
}

ValuePtr MakeView(const AffineView& view) {
  return pytorch::MakeList({pytorch::MakeInteger(view.offset), Integers(view.strides)});
}

ValuePtr MakePiece(const AffinePiece& piece) {
  std::vector<pytorch::Entry> entries = {{pytorch::MakeText("shape"), Integers(piece.shape)},
                                         {pytorch::MakeText("source"), MakeView(piece.source)},
                                         {pytorch::MakeText("dest"), MakeView(piece.dest)},
                                         {pytorch::MakeText("locations"), Integers(piece.locations)}};
  if (piece.scale != 1.0) entries.push_back({pytorch::MakeText("scale"), pytorch::MakeDouble(piece.scale)});
  return pytorch::MakeDict(std::move(entries));
}

}  // namespace

ValuePtr MakeAffineMap(const AffineMap& map) {
  std::vector<pytorch::Entry> ranks;
  for (const auto& [rank, shard] : map.ranks) {
    std::vector<ValuePtr> pieces;
    for (const AffinePiece& piece : shard.pieces) pieces.push_back(MakePiece(piece));
    ranks.push_back({pytorch::MakeInteger(rank),
                     pytorch::MakeDict({{pytorch::MakeText("shard_shape"), Integers(shard.shape)},
                                        {pytorch::MakeText("pieces"), pytorch::MakeList(std::move(pieces))}})});
  }
  return pytorch::MakeDict({{pytorch::MakeText("logical_shape"), Integers(map.logical_shape)},
                            {pytorch::MakeText("ranks"), pytorch::MakeDict(std::move(ranks))}});
}

std::optional<AffineMap> ReadAffineMap(const Value& value) {
  AffineMap map;
  ValuePtr shape = pytorch::Find(value, "logical_shape");
  ValuePtr ranks = pytorch::Find(value, "ranks");
  auto sizes = shape == nullptr ? std::nullopt : pytorch::AsIntegers(*shape);
  const auto* entries = ranks == nullptr ? nullptr : pytorch::Entries(*ranks);
  if (!sizes || entries == nullptr) return std::nullopt;
  map.logical_shape = std::move(*sizes);
  for (const pytorch::Entry& entry : *entries) {
    auto rank = RankOf(*entry.key);
    auto shard = ReadShard(*entry.value);
    if (!rank || !shard || !map.ranks.emplace(*rank, std::move(*shard)).second) return std::nullopt;
  }
  return map;
}

}  // namespace ucp
