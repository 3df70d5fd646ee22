#include "compiler/bind/shard_pieces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

// A factor, or several in one row, that both sides run through.
struct Loop {
  std::int64_t count = 1;
  std::int64_t source_stride = 0;  // In a dimension of the source's tensor,
  std::int64_t target_stride = 0;  // and in the row-major elements of the target's.
};

// Loops of one dimension of the source that are one row of the target. The slowest one first.
struct Row {
  std::vector<Loop> loops;

  std::int64_t count() const {
    std::int64_t count = 1;
    for (const Loop& loop : loops) count *= loop.count;
    return count;
  }
};

std::vector<std::int64_t> RowMajor(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// The slowest in the source first.
std::vector<Row> RowsOf(std::vector<Loop> loops) {
  std::ranges::sort(loops, std::greater(), &Loop::source_stride);
  std::vector<Row> rows;
  for (const Loop& loop : loops) {
    const bool goes_on = !rows.empty() && rows.back().loops.back().target_stride == loop.count * loop.target_stride;
    if (!goes_on) rows.emplace_back();
    rows.back().loops.push_back(loop);
  }
  return rows;
}

void AppendPositions(const std::vector<Loop>& loops, std::size_t next, std::int64_t begin, Selection& selection) {
  if (next == loops.size()) return selection.Append(begin, 1);
  const Loop& loop = loops[next];
  if (next + 1 == loops.size() && loop.source_stride == 1) return selection.Append(begin, loop.count);
  for (std::int64_t i = 0; i < loop.count; ++i) {
    AppendPositions(loops, next + 1, begin + i * loop.source_stride, selection);
  }
}

// How one dimension of a source tensor goes into a target: one row that stays, and loops that are written out.
struct Dimension {
  std::int64_t begin = 0;
  Row row;
  std::vector<Loop> written_out;

  std::int64_t stride() const { return row.loops.empty() ? 1 : row.loops.back().target_stride; }
};

class PieceWriter {
 public:
  // `shape` is that of the target's local tensor.
  PieceWriter(const CommonElements& elements, const std::vector<std::int64_t>& shape, std::vector<ShardPiece>& pieces)
      : tensor_(elements.source), pieces_(pieces) {
    const std::vector<std::int64_t> strides = RowMajor(shape);
    for (std::size_t d = 0; d < strides.size(); ++d) target_begin_ += elements.target_begin[d] * strides[d];
    std::vector<std::vector<Loop>> loops(elements.source_begin.size());
    for (const CommonElements::Loop& loop : elements.loops) {
      if (loop.count == 1) continue;
      loops[loop.source_dim].push_back({loop.count, loop.source_stride, loop.target_stride * strides[loop.target_dim]});
    }
    for (std::size_t d = 0; d < loops.size(); ++d) {
      dims_.push_back(Split(elements.source_begin[d], RowsOf(std::move(loops[d]))));
    }
  }

  // Runs of positions that all pieces have together, about.
  std::int64_t size() const {
    std::int64_t size = 1;
    for (const Dimension& dim : dims_) {
      for (const Loop& loop : dim.written_out) size = Times(size, loop.count);
    }
    std::int64_t runs = 1;
    for (const Dimension& dim : dims_) {
      const bool is_run = dim.row.loops.size() == 1 && dim.row.loops.front().source_stride == 1;
      if (!is_run) runs += dim.row.count();
    }
    return Times(size, runs);
  }

  void Write() { WriteFrom(0, target_begin_); }

 private:
  static std::int64_t Times(std::int64_t a, std::int64_t b) {
    return std::min(a, kMostPieces + 1) * std::min(b, kMostPieces + 1);
  }

  static Dimension Split(std::int64_t begin, std::vector<Row> rows) {
    Dimension dimension{begin, {}, {}};
    const auto longest = std::ranges::max_element(rows, {}, &Row::count);
    for (auto row = rows.begin(); row != rows.end(); ++row) {
      if (row == longest) continue;
      dimension.written_out.insert(dimension.written_out.end(), row->loops.begin(), row->loops.end());
    }
    if (longest != rows.end()) dimension.row = *longest;
    return dimension;
  }

  void WriteFrom(std::size_t d, std::int64_t target_begin) {
    if (d == dims_.size()) {
      ShardPiece piece{tensor_, set_, target_begin, {}};
      for (const Dimension& dim : dims_) piece.strides.push_back(dim.stride());
      return pieces_.push_back(std::move(piece));
    }
    WriteOut(d, 0, dims_[d].begin, target_begin);
  }

  void WriteOut(std::size_t d, std::size_t loop, std::int64_t begin, std::int64_t target_begin) {
    const Dimension& dim = dims_[d];
    if (loop < dim.written_out.size()) {
      const Loop& outer = dim.written_out[loop];
      for (std::int64_t i = 0; i < outer.count; ++i) {
        WriteOut(d, loop + 1, begin + i * outer.source_stride, target_begin + i * outer.target_stride);
      }
      return;
    }
    Selection selection;
    AppendPositions(dim.row.loops, 0, begin, selection);
    set_.dims.push_back(std::move(selection));
    WriteFrom(d + 1, target_begin);
    set_.dims.pop_back();
  }

  const std::string& tensor_;
  std::vector<ShardPiece>& pieces_;
  std::int64_t target_begin_ = 0;
  std::vector<Dimension> dims_;
  ProductSet set_;
};

llvm::Error FindHeld(const Layout& layout, const Mesh& mesh, const Shard& shard, OwnPart& part) {
  const TensorLayout* tensor = layout.Find(shard.tensor);
  UCP_CHECK(tensor != nullptr, "the target format wants an unknown tensor `{}`", shard.tensor);
  UCP_ASSIGN_OR_RETURN(part.shape, LogicalShape(*tensor));
  UCP_ASSIGN_OR_RETURN(part.held, HeldAt(*tensor, mesh, shard.coordinate));
  UCP_CHECK(part.held.LocalShape() == shard.shape, "the target format gives `{}` the shape [{}], and its layout [{}]",
            shard.tensor, fmt::join(shard.shape, ", "), fmt::join(part.held.LocalShape(), ", "));
  return llvm::Error::success();
}

// For a shard of the target that has none of these elements: a shard of padding alone, say. A tensor without dimensions
// has no piece without places.
llvm::Expected<ShardPiece> PieceOfNothing(const std::vector<CommonElements>& elements, const std::string& shard) {
  const auto with_dims = std::ranges::find_if(elements, [](const auto& some) { return !some.source_begin.empty(); });
  if (with_dims == elements.end()) {
    return Fail(
        ErrorCode::kUnsupported,
        "`{}` is put together of numbers such as `{}`, which have no dimensions, and a rank of the target holds "
        "none of them; cut it over fewer ranks",
        shard, elements.front().source);
  }
  ShardPiece piece{with_dims->source, {}, 0, {}};
  piece.set.dims.resize(with_dims->source_begin.size());
  piece.strides.resize(with_dims->source_begin.size(), 1);
  return piece;
}

}  // namespace

std::int64_t RunsOfPieces(const CommonElements& elements, const std::vector<std::int64_t>& shape) {
  std::vector<ShardPiece> none;
  return PieceWriter(elements, shape, none).size();
}

std::vector<ShardPiece> PiecesOf(const std::vector<CommonElements>& elements, const ProductSet& held,
                                 std::int64_t& runs_left) {
  std::vector<ShardPiece> pieces;
  const std::vector<std::int64_t> shape = held.LocalShape();
  for (const CommonElements& all : elements) {
    for (const CommonElements& some : HeldElements(all, held)) {
      PieceWriter writer(some, shape, pieces);
      runs_left -= writer.size();
      if (runs_left < 0) return {};
      writer.Write();
    }
  }
  return pieces;
}

// A tensor of which one rank holds all and the others nothing is in parts as well.
llvm::Error FillPieces(const CommonOfTensors& common, const Layout& layout, TargetFiles& target) {
  std::set<std::string_view> cut;
  std::map<std::size_t, OwnPart> parts;
  std::int64_t runs_left = kMostPieces;
  std::vector<Shard>& shards = target.storage.shards;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const auto elements = common.find(shards[s].tensor);
    if (elements == common.end()) continue;
    OwnPart part;
    UCP_RETURN_IF_ERROR(FindHeld(layout, target.mesh, shards[s], part));
    shards[s].pieces = PiecesOf(elements->second, part.held, runs_left);
    shards[s].is_tensor = true;
    if (runs_left < 0) {
      return Fail(ErrorCode::kUnsupported,
                  "the target's layout cuts the tensors of the source into more than the {} pieces that a plan has at "
                  "most; convert it to this layout with whole tensors first, and cut or load those",
                  kMostPieces);
    }
    if (shards[s].pieces.empty()) {
      UCP_ASSIGN_OR_RETURN(ShardPiece nothing, PieceOfNothing(elements->second, shards[s].tensor));
      shards[s].pieces.push_back(std::move(nothing));
    }
    if (part.held != ProductSet::Whole(part.shape)) cut.insert(elements->first);
    parts.emplace(s, std::move(part));
  }
  for (auto& [s, part] : parts) {
    if (cut.contains(shards[s].tensor)) target.own_parts.emplace(s, std::move(part));
  }
  return llvm::Error::success();
}

}  // namespace ucp
