#include "compiler/bind/between_layouts.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/bind/shard_pieces.h"

namespace ucp {
namespace {

class Between {
 public:
  Between(const LayoutOfModel& source, const LayoutOfModel& target, DiagnosticSink& sink)
      : source_(source), target_(target), sink_(sink), left_(source.stored.pieces.size()) {}

  std::optional<CommonOfTensors> Run() {
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
    std::vector<CommonElements> common;
    const StoredPiece* lacking = nullptr;
    for (std::size_t p = first; p < last; ++p) {
      const StoredPiece& piece = target_.stored.pieces[p];
      if (AddPiece(piece, common) != piece.elements() && lacking == nullptr) lacking = &piece;
    }
    const bool is_optional = target_.bound.spec.tensors[tensor.declaration].optional;
    if (lacking != nullptr && !(common.empty() && is_optional)) return ReportLacking(*lacking);
    if (!common.empty()) result_.emplace(tensor.name, std::move(common));
  }

  // Returns how many of its elements the source has.
  std::int64_t AddPiece(const StoredPiece& piece, std::vector<CommonElements>& common) {
    std::int64_t found = 0;
    const auto sources = sources_.find({piece.part, PlacesOf(piece, by_both_[piece.part])});
    if (sources == sources_.end()) return found;
    for (const std::size_t i : sources->second) {
      const StoredPiece& from = source_.stored.pieces[i];
      common.push_back(ElementsOfBoth(source_.bound.tensors[from.tensor].name, from, piece));
      runs_ += RunsOfPieces(common.back(), target_.stored.shapes[piece.tensor]);
      if (runs_ > kMostPieces) return ReportTooMany(piece);
      found += common.back().elements();
      left_[i] -= common.back().elements();
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
  std::int64_t runs_ = 0;
  CommonOfTensors result_;
};

}  // namespace

std::optional<CommonOfTensors> FindCommonElements(const LayoutOfModel& source, const LayoutOfModel& target,
                                                  DiagnosticSink& sink) {
  return Between(source, target, sink).Run();
}

}  // namespace ucp
