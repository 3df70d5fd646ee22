#include "compiler/formats/dcp/entries/shards.h"

#include <algorithm>
#include <map>

#include "compiler/layout/layout.h"

namespace ucp::dcp {
namespace {

ProductSet SetOf(const Chunk& chunk) {
  ProductSet set;
  for (std::size_t d = 0; d < chunk.sizes.size(); ++d) set.dims.emplace_back().Append(chunk.offsets[d], chunk.sizes[d]);
  return set;
}

bool IsEmpty(const Entry& entry) { return llvm::is_contained(entry.shape, 0); }

// Whether both are cut alike and lie alike in memory: then one shard holds both.
bool HaveEqualChunks(const StoredItems& items, const Entry& a, const Entry& b) {
  return std::ranges::equal(a.chunks, b.chunks, [&](const Chunk& x, const Chunk& y) {
    return x.offsets == y.offsets && x.sizes == y.sizes && items.tensor(x).strides == items.tensor(y).strides;
  });
}

class Adder {
 public:
  Adder(const StoredItems& items, const std::string& name, TensorKind kind, StorageTables& tables, TensorBoxes& boxes)
      : items_(items), name_(name), kind_(kind), tables_(tables), boxes_(boxes) {}

  std::vector<Shard> TakeShards() { return std::move(shards_); }

  void Add(const std::vector<StateOfTensor>& alike) {
    const Entry& first = *alike.front().entry;
    boxes_.shape = first.shape;
    for (std::size_t c = 0; c < first.chunks.size(); ++c) {
      Shard shard;
      shard.tensor = name_;
      shard.kind = kind_;
      const Chunk& chunk = first.chunks[c];
      if (IsEmpty(first)) {
        shard.shape = first.shape;
      } else {
        shard.shape.assign(chunk.sizes.begin(), chunk.sizes.end());
        shard.strides = items_.tensor(chunk).strides;
        shard.coordinate.at[kBoxAxis] = PlaceOf(chunk);
      }
      BufferSet states;
      for (const StateOfTensor& state : alike) states.push_back({state.state, BufferOf(state.entry->chunks[c])});
      shard.states = tables_.Add(std::move(states));
      shards_.push_back(std::move(shard));
    }
  }

 private:
  std::int64_t PlaceOf(const Chunk& chunk) {
    const auto [known, is_new] = places_.try_emplace({chunk.offsets, chunk.sizes}, std::ssize(boxes_.boxes));
    if (is_new) boxes_.boxes.push_back(SetOf(chunk));
    return known->second;
  }

  BufferId BufferOf(const Chunk& chunk) {
    const ItemTensor& tensor = items_.tensor(chunk);
    const Record of_chunk = items_.record(chunk);
    const RecordId record = tables_.Add(of_chunk);
    Buffer buffer;
    buffer.dtype = tensor.dtype;
    buffer.part_elements = static_cast<std::int64_t>(of_chunk.bytes) / ItemBytes(tensor.dtype) - tensor.offset;
    buffer.parts.push_back({record, tensor.offset, buffer.part_elements});
    return tables_.Add(std::move(buffer));
  }

  const StoredItems& items_;
  const std::string& name_;
  const TensorKind kind_;
  StorageTables& tables_;
  TensorBoxes& boxes_;
  std::vector<Shard> shards_;
  std::map<std::pair<Extents, Extents>, std::int64_t> places_;
};

}  // namespace

std::vector<Shard> ShardsOf(const StoredItems& items, const std::string& name, TensorKind kind,
                            std::vector<StateOfTensor> states, StorageTables& tables, TensorBoxes& boxes) {
  Adder adder(items, name, kind, tables, boxes);
  while (!states.empty()) {
    std::vector<StateOfTensor> alike;
    std::vector<StateOfTensor> others;
    for (StateOfTensor& state : states) {
      const bool is_alike = HaveEqualChunks(items, *states.front().entry, *state.entry);
      (is_alike ? alike : others).push_back(state);
    }
    adder.Add(alike);
    states = std::move(others);
  }
  return adder.TakeShards();
}

}  // namespace ucp::dcp
