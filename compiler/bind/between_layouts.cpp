#include "compiler/bind/between_layouts.h"

#include <fmt/format.h>

#include <algorithm>

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

// The common elements of two pieces.
struct Meeting {
  std::vector<std::int64_t> source_begin;
  std::int64_t target_begin = 0;
  std::vector<std::vector<Loop>> loops;  // By dimension of the source's tensor.
  std::int64_t elements = 1;
};

std::vector<std::int64_t> RowMajor(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

Meeting Meet(const StoredPiece& source, const StoredPiece& target, const std::vector<std::int64_t>& target_strides) {
  Meeting meeting{source.begin, 0, std::vector<std::vector<Loop>>(source.begin.size())};
  for (std::size_t d = 0; d < target.begin.size(); ++d) meeting.target_begin += target.begin[d] * target_strides[d];
  for (std::size_t f = 0; f < source.factors.size(); ++f) {
    const PlacedFactor& from = source.factors[f];
    const PlacedFactor& to = target.factors[f];
    const std::int64_t stride = to.counted ? 0 : to.stride * target_strides[to.dim];
    if (from.counted && to.counted) continue;
    if (to.counted) meeting.source_begin[from.dim] += *to.counted * from.stride;
    if (from.counted) meeting.target_begin += *from.counted * stride;
    if (from.counted || to.counted) continue;
    meeting.elements *= from.length;
    if (from.length != 1) meeting.loops[from.dim].push_back({from.length, from.stride, stride});
  }
  return meeting;
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
  PieceWriter(const std::string& tensor, const Meeting& meeting, std::vector<ShardPiece>& pieces)
      : tensor_(tensor), pieces_(pieces) {
    for (std::size_t d = 0; d < meeting.loops.size(); ++d) {
      dims_.push_back(Split(meeting.source_begin[d], RowsOf(meeting.loops[d])));
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

  void Write(std::int64_t target_begin) { WriteFrom(0, target_begin); }

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
  std::vector<Dimension> dims_;
  ProductSet set_;
};

class Between {
 public:
  Between(const LayoutOfModel& source, const LayoutOfModel& target, DiagnosticSink& sink)
      : source_(source), target_(target), sink_(sink), left_(source.stored.pieces.size()) {}

  std::optional<PiecesOfTensors> Run() {
    const std::size_t errors_before = sink_.error_count();
    Index();
    const std::vector<StoredPiece>& pieces = target_.stored.pieces;
    for (std::size_t first = 0; first < pieces.size() && sink_.error_count() == errors_before;) {
      std::size_t last = first;
      while (last < pieces.size() && pieces[last].tensor == pieces[first].tensor) ++last;
      AddTensor(first, last);
      first = last;
    }
    if (sink_.error_count() == errors_before) CheckAllMet();
    if (sink_.error_count() != errors_before) return std::nullopt;
    return std::move(result_);
  }

 private:
  using Places = std::vector<std::int64_t>;

  // Of the factors that names count on both sides.
  Places PlacesOf(const StoredPiece& piece, const std::vector<bool>& by_both) const {
    Places places;
    for (std::size_t f = 0; f < by_both.size(); ++f) {
      if (by_both[f]) places.push_back(*piece.factors[f].counted);
    }
    return places;
  }

  void Index() {
    const std::size_t parts = source_.bound.spec.model->parts.size();
    by_both_.resize(parts);
    std::vector<const StoredPiece*> first(parts, nullptr);
    for (const StoredPiece& piece : target_.stored.pieces) first[piece.part] = &piece;
    for (std::size_t i = 0; i < source_.stored.pieces.size(); ++i) {
      const StoredPiece& piece = source_.stored.pieces[i];
      left_[i] = piece.elements();
      const StoredPiece* other = first[piece.part];
      if (other == nullptr) continue;
      std::vector<bool>& by_both = by_both_[piece.part];
      if (by_both.empty()) {
        for (std::size_t f = 0; f < piece.factors.size(); ++f) {
          by_both.push_back(piece.factors[f].counted && other->factors[f].counted);
        }
      }
      sources_[{piece.part, PlacesOf(piece, by_both)}].push_back(i);
    }
  }

  void AddTensor(std::size_t first, std::size_t last) {
    const BoundTensor& tensor = target_.bound.tensors[target_.stored.pieces[first].tensor];
    const std::vector<std::int64_t> strides = RowMajor(target_.stored.shapes[target_.stored.pieces[first].tensor]);
    std::vector<ShardPiece> pieces;
    const StoredPiece* lacking = nullptr;
    for (std::size_t p = first; p < last; ++p) {
      const StoredPiece& piece = target_.stored.pieces[p];
      if (AddPiece(piece, strides, pieces) != piece.elements() && lacking == nullptr) lacking = &piece;
    }
    const bool is_optional = target_.bound.spec.tensors[tensor.declaration].optional;
    if (lacking != nullptr && !(pieces.empty() && is_optional)) return ReportLacking(*lacking);
    if (!pieces.empty()) result_.emplace(tensor.name, std::move(pieces));
  }

  // Returns how many of its elements the source has.
  std::int64_t AddPiece(const StoredPiece& piece, const std::vector<std::int64_t>& strides,
                        std::vector<ShardPiece>& pieces) {
    std::int64_t found = 0;
    const auto sources = sources_.find({piece.part, PlacesOf(piece, by_both_[piece.part])});
    if (sources == sources_.end()) return found;
    for (const std::size_t i : sources->second) {
      const StoredPiece& from = source_.stored.pieces[i];
      const Meeting meeting = Meet(from, piece, strides);
      PieceWriter writer(source_.bound.tensors[from.tensor].name, meeting, pieces);
      written_ += writer.size();
      if (written_ > kMostPieces) return ReportTooMany(piece);
      writer.Write(meeting.target_begin);
      found += meeting.elements;
      left_[i] -= meeting.elements;
    }
    return found;
  }

  void CheckAllMet() {
    for (std::size_t i = 0; i < left_.size(); ++i) {
      if (left_[i] == 0) continue;
      const StoredPiece& piece = source_.stored.pieces[i];
      return Report(piece, DiagnosticKind::kPartMissing,
                    fmt::format("`{}` has {} elements of the part `{}` that the layout `{}` does not store",
                                source_.bound.tensors[piece.tensor].name, left_[i], NameOf(piece),
                                target_.bound.spec.layout_name));
    }
  }

  void ReportLacking(const StoredPiece& piece) {
    Report(piece, DiagnosticKind::kPartMissing,
           fmt::format("`{}` of the layout `{}` wants elements of the part `{}` that the source, in the layout `{}`, "
                       "does not have",
                       target_.bound.tensors[piece.tensor].name, target_.bound.spec.layout_name, NameOf(piece),
                       source_.bound.spec.layout_name));
  }

  std::int64_t ReportTooMany(const StoredPiece& piece) {
    Report(piece, DiagnosticKind::kPartFactors,
           fmt::format("the elements of the part `{}` move to `{}` in more pieces than the {} that a plan has at most",
                       NameOf(piece), target_.bound.tensors[piece.tensor].name, kMostPieces));
    return piece.elements();
  }

  const std::string& NameOf(const StoredPiece& piece) const { return source_.bound.spec.model->parts[piece.part].name; }

  void Report(const StoredPiece& piece, DiagnosticKind kind, std::string message) {
    sink_.Report({.kind = kind, .place = piece.range, .message = std::move(message)});
  }

  const LayoutOfModel& source_;
  const LayoutOfModel& target_;
  DiagnosticSink& sink_;
  std::vector<std::vector<bool>> by_both_;  // By part and factor.
  std::map<std::pair<std::size_t, Places>, std::vector<std::size_t>> sources_;
  std::vector<std::int64_t> left_;  // By the source's pieces: elements that no target has got yet.
  std::int64_t written_ = 0;
  PiecesOfTensors result_;
};

}  // namespace

std::optional<PiecesOfTensors> FindPiecesBetween(const LayoutOfModel& source, const LayoutOfModel& target,
                                                 DiagnosticSink& sink) {
  return Between(source, target, sink).Run();
}

}  // namespace ucp
