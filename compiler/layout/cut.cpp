// All rules but `list` give each coordinate one interval, so each is a formula for where an interval ends: coordinate i
// has the places from the end of i - 1 to its own end. `replicate` with fewer places than coordinates gives one place
// to several.
#include "compiler/layout/cut.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using Part = std::vector<PlaceRange>;

Part Interval(std::int64_t begin, std::int64_t end) { return begin < end ? Part{{begin, end}} : Part{}; }

llvm::Expected<Part> EvenPart(const ShapeExpr& cut, std::int64_t places, std::int64_t degree, std::int64_t index) {
  if (places % degree != 0) {
    return Fail(ErrorCode::kSpec, "`{}` cuts {} places over {} ranks, and {} does not divide {}", ToString(cut), places,
                degree, degree, places);
  }
  std::int64_t width = places / degree;
  return Interval(index * width, (index + 1) * width);
}

Part ChunkPart(std::int64_t places, std::int64_t degree, std::int64_t index) {
  std::int64_t width = CeilDivide(places, degree);
  if (width == 0 || index >= CeilDivide(places, width)) return {};
  return Interval(index * width, width < places - index * width ? (index + 1) * width : places);
}

llvm::Expected<Part> SpreadPart(const ShapeExpr& cut, std::int64_t places, std::int64_t degree, std::int64_t index) {
  if (cut.grain <= 0) {
    return Fail(ErrorCode::kSpec, "`{}` spreads whole units of {} places, and needs 1 at least", ToString(cut),
                cut.grain);
  }
  std::int64_t units = places / cut.grain;
  auto end_of = [&](std::int64_t coordinates) {
    if (coordinates == degree) return places;
    return (coordinates * (units / degree) + std::min(coordinates, units % degree)) * cut.grain;
  };
  return Interval(end_of(index), end_of(index + 1));
}

llvm::Expected<Part> WidthsPart(const ShapeExpr& cut, std::int64_t places, std::int64_t degree, std::int64_t index) {
  if (std::ssize(cut.widths) != degree) {
    return Fail(ErrorCode::kSpec, "`{}` has {} widths, and cuts over {} ranks", ToString(cut), cut.widths.size(),
                degree);
  }
  std::int64_t begin = 0;
  std::optional<std::int64_t> total = 0;
  for (std::size_t i = 0; i < cut.widths.size() && total; ++i) {
    if (cut.widths[i] < 0) {
      return Fail(ErrorCode::kSpec, "`{}` has the width {} for rank {}, and widths are 0 or more", ToString(cut),
                  cut.widths[i], i);
    }
    if (static_cast<std::int64_t>(i) == index) begin = *total;
    total = CheckedAdd(*total, cut.widths[i]);
  }
  if (total != places) {
    return Fail(ErrorCode::kSpec, "the widths of `{}` are {} in all, and it cuts {} places", ToString(cut),
                total ? std::to_string(*total) : "more than 63 bits hold", places);
  }
  return Interval(begin, begin + cut.widths[static_cast<std::size_t>(index)]);
}

llvm::Expected<Part> ListPart(const ShapeExpr& cut, std::int64_t places, std::int64_t degree, std::int64_t index) {
  if (std::ssize(cut.lists) != degree) {
    return Fail(ErrorCode::kSpec, "`{}` lists positions for {} ranks, and cuts over {}", ToString(cut),
                cut.lists.size(), degree);
  }
  const std::vector<std::int64_t>& mine = cut.lists[static_cast<std::size_t>(index)];
  std::vector<std::int64_t> sorted = mine;
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= places)) {
    return Fail(ErrorCode::kSpec, "`{}` lists position {} for rank {}, and there are {} places, counted from 0",
                ToString(cut), sorted.front() < 0 ? sorted.front() : sorted.back(), index, places);
  }
  if (auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return Fail(ErrorCode::kSpec, "`{}` lists position {} twice for rank {}", ToString(cut), *twice, index);
  }
  Part part;
  for (std::int64_t position : mine) {
    if (part.empty() || part.back().end != position) part.push_back({position, position});
    ++part.back().end;
  }
  return part;
}

llvm::Expected<Part> ReplicatePart(const ShapeExpr& cut, std::int64_t places, std::int64_t degree, std::int64_t index) {
  if (places % degree == 0) return EvenPart(cut, places, degree, index);
  if (degree % places != 0) {
    return Fail(ErrorCode::kSpec, "`{}` cuts {} places over {} ranks, and neither divides the other", ToString(cut),
                places, degree);
  }
  std::int64_t place = index / (degree / places);
  return Interval(place, place + 1);
}

}  // namespace

llvm::Expected<Part> PartOf(const ShapeExpr& cut, std::int64_t places, std::int64_t degree, std::int64_t index) {
  UCP_CHECK(places >= 0 && 0 <= index && index < degree, "{} places, and coordinate {} of {}", places, index, degree);
  switch (cut.rule) {
    case CutRule::kEven:
      return EvenPart(cut, places, degree, index);
    case CutRule::kChunk:
      return ChunkPart(places, degree, index);
    case CutRule::kSpread:
      return SpreadPart(cut, places, degree, index);
    case CutRule::kWidths:
      return WidthsPart(cut, places, degree, index);
    case CutRule::kList:
      return ListPart(cut, places, degree, index);
    case CutRule::kReplicate:
      return ReplicatePart(cut, places, degree, index);
  }
  UCP_UNREACHABLE();
}

llvm::Expected<std::int64_t> WidthOf(const ShapeExpr& cut, std::int64_t places, std::int64_t degree,
                                     std::int64_t index) {
  UCP_ASSIGN_OR_RETURN(Part part, PartOf(cut, places, degree, index));
  std::int64_t width = 0;
  for (const PlaceRange& range : part) width += range.end - range.begin;
  return width;
}

// Every rule but `list` fits for all coordinates or for none, and leaves no place out.
llvm::Error VerifyCut(const ShapeExpr& cut, std::int64_t places, std::int64_t degree) {
  UCP_RETURN_IF_ERROR(PartOf(cut, places, degree, 0).takeError());
  if (cut.rule != CutRule::kList) return llvm::Error::success();
  std::vector<std::int64_t> listed;
  for (std::int64_t i = 0; i < degree; ++i) {
    UCP_RETURN_IF_ERROR(PartOf(cut, places, degree, i).takeError());
    const std::vector<std::int64_t>& positions = cut.lists[static_cast<std::size_t>(i)];
    listed.insert(listed.end(), positions.begin(), positions.end());
  }
  std::sort(listed.begin(), listed.end());
  std::int64_t covered = 0;
  for (std::int64_t position : listed) {
    if (position > covered) break;
    if (position == covered) ++covered;
  }
  if (covered == places) return llvm::Error::success();
  return Fail(ErrorCode::kSpec, "`{}` lists position {} of {} for no rank", ToString(cut), covered, places);
}

std::string RuleText(const ShapeExpr& cut) {
  switch (cut.rule) {
    case CutRule::kEven:
      return "";
    case CutRule::kChunk:
      return "(chunk)";
    case CutRule::kSpread:
      return cut.grain == 1 ? "(spread)" : fmt::format("(spread {})", cut.grain);
    case CutRule::kWidths:
      return fmt::format("(widths [{}])", fmt::join(cut.widths, ", "));
    case CutRule::kList: {
      std::string lists;
      for (const std::vector<std::int64_t>& list : cut.lists) {
        lists += fmt::format("{}[{}]", lists.empty() ? "" : ", ", fmt::join(list, ", "));
      }
      return fmt::format("(list [{}])", lists);
    }
    case CutRule::kReplicate:
      return "(replicate)";
  }
  UCP_UNREACHABLE();
}

}  // namespace ucp
