#include "compiler/plan/entry_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/plan/print.h"
#include "compiler/support/check.h"

namespace ucp {
namespace {

std::string SpreadText(Spread spread) { return spread == Spread::kAcrossBuffer ? "across the buffer" : "by itself"; }

std::string ShardText(const std::string& name, const Coordinate& coordinate, std::int64_t base, Spread spread,
                      BufferSetId states) {
  return fmt::format("`{}` at {}, states {}, from element {} on, spread {}", name, ToString(coordinate), states, base,
                     SpreadText(spread));
}

// Of a piece of a fused shard.
std::string PlaceText(const Plan& plan, const WrittenPiece& piece) {
  std::string text = fmt::format(" of `{}` from {} on", plan.tensor(piece.tensor).logical.name, piece.begin);
  if (!piece.strides.empty()) text += fmt::format(", strides [{}]", fmt::join(piece.strides, ", "));
  return text;
}

std::string KindText(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameter";
    case TensorKind::kFrozen:
      return "frozen";
    case TensorKind::kBuffer:
      return "buffer";
    case TensorKind::kCarried:
      return "carried";
  }
  UCP_UNREACHABLE();
}

std::string ScaleText(const Scale& scale) { return fmt::format("{}/{}", scale.numerator, scale.denominator); }

}  // namespace

std::string EntryText(const StoredFile& file) {
  const std::string header = file.header_hash.empty() ? "" : fmt::format(", header {}", file.header_hash);
  return fmt::format("`{}` of {} bytes{}", file.path, file.bytes, header);
}

std::string EntryText(const StorageTables& tables, const Record& record) {
  const std::string crc = record.crc32 ? fmt::format(", CRC-32 {:08x}", *record.crc32) : "";
  return fmt::format("{} bytes at {} of `{}`{}", record.bytes, record.begin, tables.files[record.file.index()].path,
                     crc);
}

std::string EntryText(const StorageTables& tables, const Buffer& buffer) {
  std::string text = fmt::format("{}, parts of {}:", Name(buffer.dtype), buffer.part_elements);
  for (const BufferPart& part : buffer.parts) {
    text += fmt::format(" {} from {} on in record {} of `{}`", part.elements, part.first_element, part.record,
                        tables.file(part.record).path);
  }
  return text;
}

std::string EntryText(const BufferSet& set) {
  std::string text;
  for (const StateBuffer& entry : set) {
    text += fmt::format("{}`{}` in buffer {}", text.empty() ? "" : ", ", entry.state, entry.buffer);
  }
  return text.empty() ? "no states" : text;
}

std::string EntryText(const PlanTensor& tensor) {
  const LogicalTensor& logical = tensor.logical;
  std::string text = fmt::format("{} `{}` [{}]", KindText(logical.kind), logical.name, fmt::join(logical.shape, ", "));
  for (const LogicalTensor::State& state : logical.states)
    text += fmt::format(", {} {}", state.name, Name(state.dtype));
  const Arithmetic& arithmetic = tensor.arithmetic;
  if (arithmetic != Arithmetic{}) {
    text += fmt::format(", mean of {}, divided by {}, times {}", arithmetic.terms, ScaleText(arithmetic.divisor),
                        ScaleText(arithmetic.factor));
    if (arithmetic.offset != 0) text += fmt::format(", plus {}", arithmetic.offset);
  }
  return text + ", by " + tensor.declared_at;
}

std::string EntryText(const Geometry& geometry) {
  std::string text = fmt::format("of the sets {} and {}:", geometry.source, geometry.target);
  for (const std::vector<Progression>& dim : geometry.dims) {
    text += " [";
    for (const Progression& p : dim) {
      text += fmt::format(" {} x {} from {}+{} to {}+{} at {}+{}", p.count, p.length, p.source_begin, p.source_stride,
                          p.target_begin, p.target_stride, p.logical_begin, p.logical_stride);
    }
    text += " ]";
  }
  return text;
}

std::string EntryText(const Plan& plan, const PlanRead& read) {
  std::string text = fmt::format(
      "{} {}, set {} {}, term {}", Name(read.role),
      ShardText(plan.tensor(read.tensor).logical.name, read.coordinate, read.base, read.spread, read.states), read.set,
      ToString(plan.set(read.set)), read.term);
  if (!read.strides.empty()) text += fmt::format(", strides [{}]", fmt::join(read.strides, ", "));
  if (read.is_overruled) text += ", overruled";
  return read.reason.empty() ? text : text + ": " + read.reason;
}

std::string EntryText(const Plan& plan, const PlanWrite& write) {
  std::string text = "write " + ShardText(plan.NameOf(write), write.coordinate, write.base, write.spread, write.states);
  if (write.fused) text += fmt::format(", fused [{}]", fmt::join(write.fused->shape, ", "));
  if (write.fused && write.fused->part) {
    text += fmt::format(" of [{}]", fmt::join(write.fused->part->shape, ", "));
    for (const SetId set : write.fused->part->held) text += fmt::format(", held {} {}", set, ToString(plan.set(set)));
  }
  for (const WrittenPiece& piece : write.pieces) {
    text += fmt::format(", set {} {}", piece.set, ToString(plan.set(piece.set)));
    if (write.fused) text += PlaceText(plan, piece);
  }
  return text;
}

std::string EntryText(const Plan& plan, const BlobPlacement& placement) {
  return fmt::format("blob {} of {} bytes at {} of `{}`", placement.blob, plan.blobs[placement.blob.index()].size(),
                     placement.offset, plan.target.files[placement.file.index()].path);
}

std::string EntryText(const Plan& plan, const CrcField& field) {
  return fmt::format("at {} of `{}`, of record {}: {}", field.offset, plan.target.files[field.file.index()].path,
                     field.record, EntryText(plan.target, plan.target.record(field.record)));
}

std::string EntryText(const RankDecision& decision) {
  return fmt::format("{}: {} in `{}` is believed, and not {} in `{}`, {} elements", decision.what, decision.believed,
                     decision.believed_file, decision.overruled, decision.overruled_file, decision.elements);
}

}  // namespace ucp
