#include "compiler/infer/reading.h"

#include "compiler/infer/lift.h"

namespace ucp {

Reading WholeReading(const LocalShape& shape) {
  Reading reading;
  for (std::int64_t length : shape) reading.dims.push_back(ShapeExpr::Length(length));
  return reading;
}

std::vector<std::int64_t> WidthsAlong(const std::vector<LocalShape>& by_rank, std::size_t dim) {
  std::vector<std::int64_t> widths;
  for (const LocalShape& shape : by_rank) widths.push_back(shape[dim]);
  return widths;
}

Reading CutReading(const std::vector<LocalShape>& by_rank, std::size_t dim) {
  Reading reading = WholeReading(by_rank.front());
  reading.dims[dim] = LiftWidths(WidthsAlong(by_rank, dim), kCutAxis);
  return reading;
}

}  // namespace ucp
