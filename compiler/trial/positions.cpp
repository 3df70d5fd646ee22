// Nothing here is clever: a cut by widths deals places out one at a time.
#include "compiler/trial/positions.h"

#include <numeric>

namespace ucp::oracle {

std::int64_t Length(const ShapeExpr& expr) {
  std::int64_t length = expr.kind == ShapeExpr::Kind::kLength ? expr.number : 0;
  if (expr.kind == ShapeExpr::Kind::kProduct) length = 1;
  for (const ShapeExpr& operand : expr.operands) {
    length = expr.kind == ShapeExpr::Kind::kProduct ? length * Length(operand) : length + Length(operand);
  }
  return length;
}

List ProductOf(const List& outer, const List& inner, std::int64_t inner_length) {
  List list;
  for (std::int64_t i : outer) {
    for (std::int64_t j : inner) list.push_back(i < 0 || j < 0 ? kNothing : i * inner_length + j);
  }
  return list;
}

namespace {

// How many of `places` each of `degree` coordinates gets, where coordinates get them in turn; nothing if it does not
// fit.
std::optional<List> WidthsOf(const ShapeExpr& cut, std::int64_t places, std::int64_t degree) {
  List widths(static_cast<std::size_t>(degree), 0);
  switch (cut.rule) {
    case CutRule::kEven:
    case CutRule::kReplicate:
      if (places % degree != 0) return std::nullopt;
      for (std::int64_t& width : widths) width = places / degree;
      return widths;
    case CutRule::kChunk:
      for (std::int64_t i = 0; i < places; ++i)
        ++widths[static_cast<std::size_t>(i / ((places + degree - 1) / degree))];
      return widths;
    case CutRule::kSpread:  // Deal the units out like cards, then give the rest to the last.
      for (std::int64_t unit = 0; unit < places / cut.grain; ++unit) {
        widths[static_cast<std::size_t>(unit % degree)] += cut.grain;
      }
      widths.back() += places % cut.grain;
      return widths;
    case CutRule::kWidths:
      return std::ssize(cut.widths) == degree &&
                     std::accumulate(cut.widths.begin(), cut.widths.end(), std::int64_t{0}) == places
                 ? std::optional(cut.widths)
                 : std::nullopt;
    case CutRule::kList:
      return std::nullopt;
  }
  return std::nullopt;
}

// The places of a list that coordinate `index` of `degree` gets, in their order.
std::optional<List> PlacesOf(const ShapeExpr& cut, std::int64_t places, std::int64_t degree, std::int64_t index) {
  if (cut.rule == CutRule::kList) {
    if (std::ssize(cut.lists) != degree) return std::nullopt;
    return cut.lists[static_cast<std::size_t>(index)];
  }
  if (cut.rule == CutRule::kReplicate && places < degree && places > 0 && degree % places == 0) {
    return List{index * places / degree};
  }
  std::optional<List> widths = WidthsOf(cut, places, degree);
  if (!widths) return std::nullopt;
  List mine;
  std::int64_t place = 0;
  for (std::int64_t owner = 0; owner < degree; ++owner) {
    for (std::int64_t i = 0; i < (*widths)[static_cast<std::size_t>(owner)]; ++i, ++place) {
      if (owner == index) mine.push_back(place);
    }
  }
  return mine;
}

std::optional<List> CutOf(const List& whole, const ShapeExpr& expr, const Mesh& mesh, const Coordinate& coordinate) {
  std::int64_t degree = 1;
  std::int64_t index = 0;
  for (const std::string& axis : expr.axes) {
    degree *= mesh.Size(axis);
    index = index * mesh.Size(axis) + coordinate.At(axis);
  }
  std::optional<List> places = PlacesOf(expr, std::ssize(whole), degree, index);
  if (!places) return std::nullopt;
  List list;
  for (std::int64_t place : *places) list.push_back(whole.at(static_cast<std::size_t>(place)));
  return list;
}

}  // namespace

std::optional<List> Positions(const ShapeExpr& expr, const Mesh& mesh, const Coordinate& coordinate) {
  if (expr.kind == ShapeExpr::Kind::kLength) {
    List list;
    for (std::int64_t i = 0; i < expr.number; ++i) list.push_back(i);
    return list;
  }
  std::optional<List> all = Positions(expr.operands[0], mesh, coordinate);
  if (!all) return std::nullopt;
  if (expr.kind == ShapeExpr::Kind::kCut) return CutOf(*all, expr, mesh, coordinate);
  if (expr.kind == ShapeExpr::Kind::kPad) {
    while (static_cast<std::int64_t>(all->size()) % expr.number != 0) all->push_back(kNothing);
    return all;
  }
  std::int64_t length = Length(expr.operands[0]);
  for (std::size_t o = 1; o < expr.operands.size(); ++o) {
    std::optional<List> next = Positions(expr.operands[o], mesh, coordinate);
    if (!next) return std::nullopt;
    std::int64_t next_length = Length(expr.operands[o]);
    if (expr.kind == ShapeExpr::Kind::kProduct) {
      all = ProductOf(*all, *next, next_length);
      length *= next_length;
    } else {
      for (std::int64_t position : *next) all->push_back(position < 0 ? kNothing : length + position);
      length += next_length;
    }
  }
  return all;
}

std::vector<Coordinate> AllCoordinates(const Mesh& mesh) {
  std::vector<Coordinate> all = {{}};
  for (const Axis& axis : mesh.axes) {
    std::vector<Coordinate> longer;
    for (const Coordinate& coordinate : all) {
      for (std::int64_t i = 0; i < axis.size; ++i) {
        longer.push_back(coordinate);
        longer.back().at[axis.name] = i;
      }
    }
    all = longer;
  }
  return all;
}

List HeldIndices(const std::vector<ShapeExpr>& dims, const Mesh& mesh, const Coordinate& coordinate) {
  List indices = {0};
  for (const ShapeExpr& dim : dims) indices = ProductOf(indices, *Positions(dim, mesh, coordinate), Length(dim));
  return indices;
}

}  // namespace ucp::oracle
