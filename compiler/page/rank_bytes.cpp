#include "compiler/page/rank_bytes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace ucp {
namespace {

constexpr std::size_t kMostRanks = 32;

// Of one coordinate: its ranks are columns [begin, begin + parts).
struct Columns {
  std::size_t begin = 0;
  std::size_t parts = 1;
};

class Counter {
 public:
  Counter(const Storage& storage, CountedStates counted) : storage_(storage), counted_(counted) {}

  RankBytes Count() {
    ForEachBuffer([this](const Shard& shard, const Buffer& buffer) {
      std::size_t& parts = columns_[shard.coordinate].parts;
      parts = std::max(parts, buffer.parts.size());
    });
    NameRanks();
    ForEachBuffer([this](const Shard& shard, const Buffer& buffer) { Add(shard, buffer); });
    return std::move(bytes_);
  }

 private:
  void ForEachBuffer(const std::function<void(const Shard&, const Buffer&)>& visit) const {
    for (const Shard& shard : storage_.shards) {
      for (const StateBuffer& state : storage_.buffer_set(shard.states)) {
        const Buffer& buffer = storage_.buffer(state.buffer);
        if (counted_ == CountedStates::kAll || buffer.parts.size() > 1) visit(shard, buffer);
      }
    }
  }

  void NameRanks() {
    for (auto& [coordinate, columns] : columns_) {
      columns.begin = bytes_.ranks.size() + bytes_.more_ranks;
      const std::string at = ToString(coordinate);
      for (std::size_t part = 0; part < columns.parts; ++part) {
        if (bytes_.ranks.size() == kMostRanks) {
          bytes_.more_ranks += columns.parts - part;
          break;
        }
        const std::string of_part = columns.parts == 1 ? "" : fmt::format("{}part={}", at.empty() ? "" : " ", part);
        bytes_.ranks.push_back(at.empty() && of_part.empty() ? "every rank" : at + of_part);
      }
    }
  }

  void Add(const Shard& shard, const Buffer& buffer) {
    const Columns& columns = columns_.at(shard.coordinate);
    std::vector<std::uint64_t>& row = bytes_.of_tensor[shard.tensor];
    row.resize(bytes_.ranks.size());
    const std::int64_t elements =
        std::accumulate(shard.shape.begin(), shard.shape.end(), std::int64_t{1}, std::multiplies());
    const auto add = [&](std::size_t part, std::int64_t count) {
      if (columns.begin + part >= row.size()) return;
      row[columns.begin + part] += static_cast<std::uint64_t>(count * ItemBytes(buffer.dtype));
    };
    if (buffer.parts.size() == 1) {  // Every rank of the coordinate holds it.
      for (std::size_t part = 0; part < columns.parts; ++part) add(part, elements);
      return;
    }
    for (const Fragment& of : FragmentsOf(shard.spread, shard.base, elements, buffer, 0, elements)) {
      add(of.part, of.end - of.begin);
    }
  }

  const Storage& storage_;
  CountedStates counted_;
  std::map<Coordinate, Columns> columns_;
  RankBytes bytes_;
};

}  // namespace

RankBytes BytesOfRanks(const Storage& storage, CountedStates counted) { return Counter(storage, counted).Count(); }

llvm::json::Value RankRows::NumberOf(const std::string& tensor) {
  auto row = bytes_.of_tensor.find(tensor);
  if (row == bytes_.of_tensor.end()) return nullptr;
  return rows_.NumberOf(fmt::format("[{}]", fmt::join(row->second, ",")));
}

void RankRows::Write(llvm::json::OStream& json) const {
  json.attributeArray("ranks", [&] {
    for (const std::string& rank : bytes_.ranks) json.value(Utf8(rank));
  });
  json.attribute("moreRanks", static_cast<std::int64_t>(bytes_.more_ranks));
  json.attributeArray("held", [&] {
    for (const std::string& row : rows_.InOrder()) json.rawValue(row);
  });
}

}  // namespace ucp
