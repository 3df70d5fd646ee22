#include "runtime/load/held_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/wire/byte_codec.h"

namespace ucp {
namespace {

std::string AxisOf(std::size_t dim) { return fmt::format("dim{}", dim); }

std::int64_t LengthOf(const HeldPositions& positions) {
  std::int64_t length = 0;
  for (const HeldRange& range : positions) length += range.end - range.begin;
  return length;
}

// One tensor over all ranks.
struct Parts {
  int first_rank = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::vector<HeldPositions>> of_dim;  // The distinct parts of each dimension, sorted.
};

// A shard's place: which part of each dimension.
using Place = std::vector<std::int64_t>;

class HeldLayout {
 public:
  explicit HeldLayout(std::span<const HeldByRank> ranks) : ranks_(ranks) {}

  llvm::Expected<HeldLaidOut> Run() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      std::set<std::pair<std::string_view, std::string_view>> seen;
      for (const HeldTensor& held : ranks_[rank]) {
        UCP_RETURN_IF_ERROR(Collect(static_cast<int>(rank), held));
        if (seen.insert({held.tensor, held.state}).second) continue;
        return Fail(ErrorCode::kUsage, "rank {} holds `{}` of tensor `{}` twice", rank, held.state, held.tensor);
      }
    }
    for (auto& [name, parts] : parts_of_) {
      for (std::vector<HeldPositions>& parts_of_dim : parts.of_dim) {
        std::sort(parts_of_dim.begin(), parts_of_dim.end());
        parts_of_dim.erase(std::unique(parts_of_dim.begin(), parts_of_dim.end()), parts_of_dim.end());
      }
    }
    MakeMesh();
    for (const auto& [name, parts] : parts_of_) AddLayout(name, parts);
    AddFiles();
    UCP_RETURN_IF_ERROR(CheckComplete());
    target_.files.format = "memory";
    target_.files.mesh = target_.layout.mesh;
    return std::move(target_);
  }

 private:
  llvm::Error Collect(int rank, const HeldTensor& held) {
    auto [entry, is_new] = parts_of_.try_emplace(held.tensor);
    Parts& parts = entry->second;
    if (is_new) parts = {rank, held.shape, std::vector<std::vector<HeldPositions>>(held.shape.size())};
    if (parts.shape != held.shape) {
      return Fail(ErrorCode::kUsage, "tensor `{}` has the shape [{}] on rank {} and [{}] on rank {}", held.tensor,
                  fmt::join(parts.shape, ", "), parts.first_rank, fmt::join(held.shape, ", "), rank);
    }
    bool fits = held.holds.size() == held.shape.size();
    for (std::size_t d = 0; fits && d < held.shape.size(); ++d) {
      std::int64_t end = 0;
      for (const HeldRange& range : held.holds[d]) {
        fits = fits && end <= range.begin && range.begin < range.end && range.end <= held.shape[d];
        end = range.end;
      }
      parts.of_dim[d].push_back(held.holds[d]);
    }
    if (fits) return llvm::Error::success();
    return Fail(ErrorCode::kUsage, "rank {} holds positions of tensor `{}` that its shape [{}] does not have", rank,
                held.tensor, fmt::join(held.shape, ", "));
  }

  void MakeMesh() {
    std::vector<Axis>& axes = target_.layout.mesh.axes;
    for (const auto& [name, parts] : parts_of_) {
      for (std::size_t d = 0; d < parts.of_dim.size(); ++d) {
        if (d == axes.size()) axes.push_back({AxisOf(d), 1});
        axes[d].size = std::max(axes[d].size, std::ssize(parts.of_dim[d]));
      }
    }
  }

  ShapeExpr DimOf(std::size_t d, std::int64_t length, const std::vector<HeldPositions>& parts) const {
    if (parts.size() == 1 && LengthOf(parts.front()) == length) return ShapeExpr::Length(length);
    ShapeExpr cut = ShapeExpr::Cut(ShapeExpr::Length(length), {AxisOf(d)});
    const auto coordinates = static_cast<std::size_t>(target_.layout.mesh.axes[d].size);
    std::int64_t end = 0;
    bool are_widths = true;  // One after the other, as parts of most tensors are.
    for (const HeldPositions& part : parts) {
      if (part.empty()) continue;
      are_widths = are_widths && part.size() == 1 && part.front().begin == end;
      end = part.back().end;
    }
    if (are_widths && end == length) {
      cut.rule = CutRule::kWidths;
      for (const HeldPositions& part : parts) cut.widths.push_back(LengthOf(part));
      cut.widths.resize(coordinates, 0);
      return cut;
    }
    cut.rule = CutRule::kList;
    cut.lists.resize(coordinates);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (const HeldRange& range : parts[i]) {
        for (std::int64_t position = range.begin; position < range.end; ++position) cut.lists[i].push_back(position);
      }
    }
    return cut;
  }

  void AddLayout(const std::string& name, const Parts& parts) {
    TensorLayout layout;
    layout.name = name;
    layout.declared_at = "the tensors that are to be filled";
    for (std::size_t d = 0; d < parts.shape.size(); ++d) {
      layout.dims.push_back(DimOf(d, parts.shape[d], parts.of_dim[d]));
    }
    target_.layout.tensors.push_back(std::move(layout));
  }

  Place PlaceOf(const HeldTensor& held) const {
    const Parts& parts = parts_of_.at(held.tensor);
    Place place;
    for (std::size_t d = 0; d < held.holds.size(); ++d) {
      const std::vector<HeldPositions>& of_dim = parts.of_dim[d];
      place.push_back(std::lower_bound(of_dim.begin(), of_dim.end(), held.holds[d]) - of_dim.begin());
    }
    return place;
  }

  void AddFiles() {
    using Key = std::tuple<std::string, std::string, Place, DType>;
    struct Holders {
      const HeldTensor* held = nullptr;
      std::vector<int> ranks;
      std::vector<std::size_t> indices;  // In the ranks' own lists.
    };
    std::map<Key, Holders> holders_of;
    target_.records.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      target_.records[rank].resize(ranks_[rank].size());
      for (std::size_t i = 0; i < ranks_[rank].size(); ++i) {
        const HeldTensor& held = ranks_[rank][i];
        Holders& holders = holders_of[{held.tensor, held.state, PlaceOf(held), held.dtype}];
        holders.held = &held;
        holders.ranks.push_back(static_cast<int>(rank));
        holders.indices.push_back(i);
      }
    }
    for (const auto& [key, holders] : holders_of) {
      std::optional<RecordId> record = AddShard(*holders.held, std::get<Place>(key), holders.ranks);
      for (std::size_t i = 0; i < holders.ranks.size(); ++i) {
        target_.records[static_cast<std::size_t>(holders.ranks[i])][holders.indices[i]] = record;
      }
    }
    target_.readers = MakeReaders(static_cast<int>(ranks_.size()), readers_of_files_);
  }

  std::optional<RecordId> AddShard(const HeldTensor& held, const Place& place, const std::vector<int>& readers) {
    Shard shard;
    shard.tensor = held.tensor;
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < place.size(); ++d) {
      shard.shape.push_back(LengthOf(held.holds[d]));
      shard.coordinate.at[AxisOf(d)] = place[d];
      elements *= shard.shape.back();
    }
    held_elements_[{held.tensor, held.state}][place] = elements;
    if (elements == 0) return std::nullopt;
    Storage& storage = target_.files.storage;
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(ItemBytes(held.dtype));
    FileId file = storage.Add(StoredFile{fmt::format("buffer-{}", storage.files.size()), bytes, ""});
    readers_of_files_.push_back(readers);
    RecordId record = storage.Add(Record{file, 0, bytes, std::nullopt});
    BufferId buffer = storage.Add(Buffer{held.dtype, elements, {{record, 0, elements}}});
    shard.states = storage.Add(BufferSet{{held.state, buffer}});
    storage.shards.push_back(std::move(shard));
    return record;
  }

  // Parts of a dimension that overlap could hide a hole: that is left to the plan's verifier.
  llvm::Error CheckComplete() const {
    for (const auto& [key, elements_at] : held_elements_) {
      std::int64_t elements = 1;
      for (std::int64_t length : parts_of_.at(key.first).shape) elements *= length;
      std::int64_t held = 0;
      for (const auto& [place, count] : elements_at) held += count;
      if (held >= elements) continue;
      return Fail(ErrorCode::kUsage,
                  "the ranks hold {} of the {} elements of `{}` of tensor `{}`; all ranks that hold "
                  "a part of it must load together",
                  held, elements, key.second, key.first);
    }
    return llvm::Error::success();
  }

  std::span<const HeldByRank> ranks_;
  std::map<std::string, Parts> parts_of_;                                                       // By name.
  std::map<std::pair<std::string, std::string>, std::map<Place, std::int64_t>> held_elements_;  // By tensor and state.
  HeldLaidOut target_;
  std::vector<std::vector<int>> readers_of_files_;  // By FileId.
};

}  // namespace

std::string Encode(const HeldByRank& held) {
  wire::ByteWriter writer;
  writer.Add(held.size());
  for (const HeldTensor& tensor : held) {
    writer.Add(tensor.tensor);
    writer.Add(tensor.state);
    writer.Add(Name(tensor.dtype));
    writer.Add(tensor.second_names.size());
    for (const std::string& name : tensor.second_names) writer.Add(name);
    writer.Add(tensor.shape.size());
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      writer.Add(static_cast<std::uint64_t>(tensor.shape[d]));
      writer.Add(tensor.holds[d].size());
      for (const HeldRange& range : tensor.holds[d]) {
        writer.Add(static_cast<std::uint64_t>(range.begin));
        writer.Add(static_cast<std::uint64_t>(range.end));
      }
    }
  }
  return writer.bytes();
}

llvm::Expected<HeldByRank> DecodeHeld(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  HeldByRank held(reader.Count());
  for (HeldTensor& tensor : held) {
    tensor.tensor = reader.Text();
    tensor.state = reader.Text();
    std::optional<DType> dtype = DTypeFromName(reader.Text());
    if (dtype) tensor.dtype = *dtype;
    if (!dtype) reader.Fail();
    tensor.second_names.resize(reader.Count());
    for (std::string& name : tensor.second_names) name = reader.Text();
    tensor.shape.resize(reader.Count());
    for (std::int64_t& length : tensor.shape) {
      length = static_cast<std::int64_t>(reader.Number());
      HeldPositions& positions = tensor.holds.emplace_back(reader.Count());
      for (HeldRange& range : positions) {
        range.begin = static_cast<std::int64_t>(reader.Number());
        range.end = static_cast<std::int64_t>(reader.Number());
      }
    }
  }
  if (reader.is_at_end()) return held;
  return Fail(ErrorCode::kBadData, "another rank sent {} bytes that do not say what it holds; do all run one version?",
              bytes.size());
}

std::vector<HeldPositions> HoldsOfWhole(const std::vector<std::int64_t>& shape) {
  std::vector<HeldPositions> holds(shape.size());
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] > 0) holds[dim].push_back({0, shape[dim]});
  }
  return holds;
}

llvm::Expected<HeldLaidOut> LayOutHeld(std::span<const HeldByRank> ranks) { return HeldLayout(ranks).Run(); }

}  // namespace ucp
