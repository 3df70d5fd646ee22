#include "compiler/formats/deepspeed/common/autoep_layers.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/formats/deepspeed/common/affine_map_value.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using pytorch::Find;
using pytorch::Items;
using pytorch::Value;
using pytorch::ValuePtr;

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostExperts = 1 << 20;  // Of one layer: lists of them are made before any file is opened.

// Reads one entry of the list.
class LayerReader {
 public:
  LayerReader(const Value& entry, const std::string& where) : entry_(entry), where_(where) {}

  llvm::Expected<AutoEpLayer> Read() {
    AutoEpLayer layer;
    ValuePtr prefix = Find(entry_, "expert_key_prefix");
    auto text = prefix ? pytorch::AsText(*prefix) : std::nullopt;
    if (!text || text->empty()) return Refuse("has no `expert_key_prefix`");
    layer.prefix = std::string(*text);
    prefix_ = layer.prefix;
    UCP_ASSIGN_OR_RETURN(layer.number, Number(entry_, "moe_layer_id", 0));
    UCP_ASSIGN_OR_RETURN(layer.experts, Number(entry_, "num_experts", 1));
    UCP_ASSIGN_OR_RETURN(layer.local_experts, Number(entry_, "num_local_experts", 0));
    UCP_ASSIGN_OR_RETURN(std::int64_t ep, Number(entry_, "ep_size", 1));
    if (ValuePtr rank = Find(entry_, "ep_rank"); rank && !rank->is_none()) {
      UCP_ASSIGN_OR_RETURN(layer.rank, Number(entry_, "ep_rank", 0));
    }
    UCP_ASSIGN_OR_RETURN(layer.places, Places(layer, ep));
    UCP_RETURN_IF_ERROR(CheckPlaces(layer));
    UCP_RETURN_IF_ERROR(CheckRange(layer));
    UCP_RETURN_IF_ERROR(TakeMaps(layer));
    return layer;
  }

 private:
  llvm::Error Refuse(const std::string& why) const {
    const std::string of = prefix_.empty() ? "" : fmt::format(" of `{}`", prefix_);
    return Fail(ErrorCode::kBadData, "`ds_autoep_layers` in `{}`: the entry{} {}", where_, of, why);
  }

  llvm::Error CheckVersion(const Value& value, std::string_view what) const {
    ValuePtr version = Find(value, "version");
    if (version && pytorch::AsInteger(*version) == kVersion) return llvm::Error::success();
    return Fail(ErrorCode::kUnsupported,
                "`ds_autoep_layers` in `{}`: the {} of `{}` is of version {}, and this program reads version {}",
                where_, what, prefix_, version ? pytorch::Print(*version) : "none", kVersion);
  }

  llvm::Expected<std::int64_t> Number(const Value& value, std::string_view key, std::int64_t least) const {
    ValuePtr found = Find(value, key);
    auto number = found ? pytorch::AsInteger(*found) : std::nullopt;
    if (number && *number >= least && *number <= kMostExperts) return *number;
    return Refuse(fmt::format("has {} as `{}`, and not a number from {} to {}",
                              found ? pytorch::Print(*found) : "nothing", key, least, kMostExperts));
  }

  llvm::Expected<ExpertPlaces> Places(const AutoEpLayer& layer, std::int64_t ep) const {
    ValuePtr placement = Find(entry_, "expert_placement");
    if (placement && !placement->is_none()) return RecordedPlaces(layer, *placement, ep);
    const auto total = CheckedMultiply(layer.local_experts, ep);
    if (total == layer.experts) return Neighbours(layer.experts, ep);
    return Refuse(fmt::format("has {} experts, and {} on each of {} ranks", layer.experts, layer.local_experts, ep));
  }

  // Each of `ep` ranks has equally many of the experts.
  static ExpertPlaces Neighbours(std::int64_t experts, std::int64_t ep) {
    ExpertPlaces places(static_cast<std::size_t>(ep));
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      places[static_cast<std::size_t>(expert / (experts / ep))].push_back(expert);
    }
    return places;
  }

  llvm::Expected<ExpertPlaces> RecordedPlaces(const AutoEpLayer& layer, const Value& placement, std::int64_t ep) const {
    UCP_RETURN_IF_ERROR(CheckVersion(placement, "placement"));
    for (const auto& [key, expected] : {std::pair("num_experts", layer.experts), std::pair("ep_size", ep)}) {
      UCP_ASSIGN_OR_RETURN(std::int64_t found, Number(placement, key, 1));
      if (found == expected) continue;
      return Refuse(fmt::format("has {} as `{}`, and {} in its placement", expected, key, found));
    }
    ValuePtr ranks = Find(placement, "ranks");
    const auto* items = ranks ? Items(*ranks) : nullptr;
    if (items == nullptr || std::ssize(*items) != ep) {
      return Refuse(fmt::format("has a placement that does not list {} ranks", ep));
    }
    std::vector<std::optional<std::vector<std::int64_t>>> found(static_cast<std::size_t>(ep));
    for (const ValuePtr& item : *items) {
      UCP_ASSIGN_OR_RETURN(std::int64_t rank, Number(*item, "rank", 0));
      ValuePtr experts = Find(*item, "experts");
      auto own = experts ? pytorch::AsIntegers(*experts) : std::nullopt;
      if (rank >= ep || !own || found[static_cast<std::size_t>(rank)]) {
        return Refuse(fmt::format("has a placement with rank {} twice, of {}, or without a list of experts", rank, ep));
      }
      found[static_cast<std::size_t>(rank)] = std::move(own);
    }
    ExpertPlaces places;
    for (auto& own : found) places.push_back(std::move(*own));
    return places;
  }

  llvm::Error CheckPlaces(const AutoEpLayer& layer) const {
    std::vector<bool> has_owner(static_cast<std::size_t>(layer.experts));
    for (std::size_t rank = 0; rank < layer.places.size(); ++rank) {
      std::vector<std::int64_t> own = layer.places[rank];
      for (std::int64_t expert : own) {
        if (expert < 0 || expert >= layer.experts) {
          return Refuse(fmt::format("places expert {} on rank {}, and there are {}", expert, rank, layer.experts));
        }
        has_owner[static_cast<std::size_t>(expert)] = true;
      }
      std::sort(own.begin(), own.end());
      if (const auto twice = std::adjacent_find(own.begin(), own.end()); twice != own.end()) {
        return Refuse(fmt::format("places expert {} twice on rank {}", *twice, rank));
      }
    }
    const auto lost = std::find(has_owner.begin(), has_owner.end(), false);
    if (lost != has_owner.end()) {
      return Refuse(fmt::format("places expert {} on no rank", lost - has_owner.begin()));
    }
    if (!layer.rank) return llvm::Error::success();
    if (*layer.rank < 0 || *layer.rank >= layer.ep()) {
      return Refuse(fmt::format("is of expert rank {}, and there are {}", *layer.rank, layer.ep()));
    }
    const std::int64_t placed = std::ssize(layer.places[static_cast<std::size_t>(*layer.rank)]);
    if (placed == layer.local_experts) return llvm::Error::success();
    return Refuse(fmt::format("says that expert rank {} has {} experts, and its placement {}", *layer.rank,
                              layer.local_experts, placed));
  }

  // The experts that the rank has if all have equally many neighbours; DeepSpeed writes the same numbers for other
  // placements, where they say nothing.
  llvm::Error CheckRange(const AutoEpLayer& layer) const {
    const bool is_even = layer.experts % layer.ep() == 0 && layer.places == Neighbours(layer.experts, layer.ep());
    if (!layer.rank || !is_even) return llvm::Error::success();
    const std::int64_t begin = *layer.rank * layer.local_experts;
    for (const auto& [key, expected] :
         {std::pair("global_expert_start", begin), std::pair("global_expert_end", begin + layer.local_experts)}) {
      ValuePtr found = Find(entry_, key);
      if (!found || found->is_none() || pytorch::AsInteger(*found) == expected) continue;
      return Refuse(fmt::format("has {} as `{}`, and expert rank {} with {} experts has {} there",
                                pytorch::Print(*found), key, *layer.rank, layer.local_experts, expected));
    }
    return llvm::Error::success();
  }

  // The maps say the same once more, in elements.
  llvm::Error TakeMaps(AutoEpLayer& layer) const {
    ValuePtr all = Find(entry_, "affine_maps");
    const auto* entries = all ? pytorch::Entries(*all) : nullptr;
    if (entries == nullptr || entries->empty()) return llvm::Error::success();
    UCP_RETURN_IF_ERROR(CheckVersion(*all, "affine maps"));
    ValuePtr params = Find(*all, "params");
    const auto* maps = params ? pytorch::Entries(*params) : nullptr;
    if (maps == nullptr) return Refuse("has `affine_maps` without `params`");
    for (const pytorch::Entry& entry : *maps) {
      const std::string name(pytorch::AsText(*entry.key).value_or("?"));
      const auto map = ReadAffineMap(*entry.value);
      if (!map) return Refuse(fmt::format("has a map of another form for `{}`", name));
      const std::int64_t experts = map->logical_shape.empty() ? 0 : map->logical_shape.front();
      if (experts != layer.experts) {
        return Refuse(fmt::format("has {} experts, and {} in its affine map for `{}`", layer.experts, experts, name));
      }
      layer.shapes.emplace(name, map->logical_shape);
      if (PlacesOf(*map) == layer.places) continue;
      return Refuse(fmt::format("places experts otherwise than its affine map for `{}`", name));
    }
    return llvm::Error::success();
  }

  // The experts that the pieces of each rank are; nothing if some are not whole experts in an order without gaps.
  static std::optional<ExpertPlaces> PlacesOf(const AffineMap& map) {
    ExpertPlaces places(map.ranks.size());
    std::int64_t size = 1;  // Of one expert.
    for (std::size_t d = 1; d < map.logical_shape.size(); ++d) {
      const auto product = CheckedMultiply(size, map.logical_shape[d]);
      if (!product || *product <= 0) return std::nullopt;
      size = *product;
    }
    for (const auto& [rank, shard] : map.ranks) {
      if (rank < 0 || rank >= std::ssize(places)) return std::nullopt;
      std::vector<std::int64_t>& own = places[static_cast<std::size_t>(rank)];
      std::vector<AffinePiece> pieces = shard.pieces;
      std::sort(pieces.begin(), pieces.end(),
                [](const AffinePiece& a, const AffinePiece& b) { return a.dest.offset < b.dest.offset; });
      for (const AffinePiece& piece : pieces) {
        const bool is_whole = piece.shape.size() == map.logical_shape.size() && !piece.shape.empty() &&
                              std::equal(piece.shape.begin() + 1, piece.shape.end(), map.logical_shape.begin() + 1) &&
                              piece.source.strides == piece.dest.strides && piece.scale == 1.0;
        const bool follows = piece.source.offset % size == 0 && piece.dest.offset == std::ssize(own) * size;
        if (!is_whole || !follows || piece.shape[0] < 0 || piece.shape[0] > kMostExperts) return std::nullopt;
        for (std::int64_t i = 0; i < piece.shape[0]; ++i) own.push_back(piece.source.offset / size + i);
      }
    }
    return places;
  }

  const Value& entry_;
  const std::string& where_;
  std::string prefix_;
};

}  // namespace

llvm::Expected<std::vector<AutoEpLayer>> ReadAutoEpLayers(const Value& value, const std::string& where) {
  const auto* items = Items(value);
  if (items == nullptr) return Fail(ErrorCode::kBadData, "`ds_autoep_layers` in `{}` is not a list", where);
  std::vector<AutoEpLayer> layers;
  for (const ValuePtr& item : *items) {
    UCP_ASSIGN_OR_RETURN(AutoEpLayer layer, LayerReader(*item, where).Read());
    for (const AutoEpLayer& other : layers) {
      if (other.prefix != layer.prefix && other.number != layer.number) continue;
      return Fail(ErrorCode::kBadData, "`ds_autoep_layers` in `{}` has two entries of layer {}, `{}` and `{}`", where,
                  layer.number, other.prefix, layer.prefix);
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::vector<ExpertLayer> LayersInOrder(std::span<const AutoEpLayer> layers) {
  std::vector<ExpertLayer> in_order(layers.size());
  for (const AutoEpLayer& layer : layers) {
    if (layer.number >= std::ssize(layers)) return {};  // Others are between them that AutoEP does not spread.
    in_order[static_cast<std::size_t>(layer.number)] = {layer.prefix, layer.experts};
  }
  return in_order;
}

}  // namespace ucp
