#include "compiler/layout/from_boxes.h"

namespace ucp {
namespace {

std::int64_t LengthOf(const Positions& positions) {
  std::int64_t length = 0;
  for (const PositionRange& range : positions) length += range.end - range.begin;
  return length;
}

ProductSet SetOf(const Box& box) {
  ProductSet set;
  for (const Positions& positions : box) {
    Selection& dim = set.dims.emplace_back();
    for (const PositionRange& range : positions) dim.Append(range.begin, range.end - range.begin);
  }
  return set;
}

}  // namespace

Box WholeBox(const std::vector<std::int64_t>& shape) {
  Box box(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 0) box[d].push_back({0, shape[d]});
  }
  return box;
}

std::int64_t ElementsOf(const Box& box) {
  std::int64_t elements = 1;
  for (const Positions& positions : box) elements *= LengthOf(positions);
  return elements;
}

bool IsBoxOf(const Box& box, const std::vector<std::int64_t>& shape) {
  if (box.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t end = 0;
    for (const PositionRange& range : box[d]) {
      if (range.begin < end || range.end <= range.begin || range.end > shape[d]) return false;
      end = range.end;
    }
  }
  return true;
}

std::int64_t BoxedTensor::PlaceOf(const Box& box) {
  const auto [entry, is_new] = places_.try_emplace(box, boxes());
  if (is_new) by_place_.push_back(&entry->first);
  return entry->second;
}

TensorLayout BoxedTensor::Layout(const std::string& name, const std::string& declared_at) const {
  TensorLayout layout;
  layout.name = name;
  layout.declared_at = declared_at;
  for (std::int64_t length : shape_) layout.dims.push_back(ShapeExpr::Length(length));
  const bool is_whole = by_place_.size() == 1 && *by_place_.front() == WholeBox(shape_);
  if (is_whole) return layout;
  for (const Box* box : by_place_) layout.boxes.push_back(SetOf(*box));
  return layout;
}

}  // namespace ucp
