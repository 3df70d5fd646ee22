// Encoding: every table in its order, so that equal plans have equal bytes. decode.cpp is the way back.
#include "compiler/plan/codec.h"

#include <llvm/ADT/StringMap.h>
#include <plan_generated.h>

#include <algorithm>
#include <cstring>

#include "compiler/plan/envelope.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// FlatBuffers ends at 2 GiB and says so only by an assertion that release builds lack.
constexpr std::size_t kMaxBytes = (std::size_t{1} << 31) - (std::size_t{1} << 20);

template <typename Item, typename Encode>
auto EncodeAll(FlatBufferBuilder& builder, const std::vector<Item>& items, Encode encode) {
  std::vector<decltype(encode(items.front()))> offsets;
  offsets.reserve(items.size());
  for (const Item& item : items) offsets.push_back(encode(item));
  return builder.CreateVector(offsets);
}

template <typename Flat, typename Item, typename Encode>
auto EncodeStructs(FlatBufferBuilder& builder, const std::vector<Item>& items, Encode encode) {
  std::vector<Flat> structs;
  structs.reserve(items.size());
  for (const Item& item : items) structs.push_back(encode(item));
  return builder.CreateVectorOfStructs(structs);
}

// The bytes before the plan's FlatBuffer.
std::string EnvelopeOf(const Plan& plan, std::string_view buffer) {
  std::string_view magic = kPlanMagic;
  for (const PlanWrite& write : plan.writes) {
    if (write.fused && magic == kPlanMagic) magic = kFusedPlanMagic;
    if (write.fused && write.fused->part) magic = kPlanMagicOfParts;
  }
  const auto has_offset = [](const PlanTensor& tensor) { return tensor.arithmetic.offset != 0; };
  if (std::ranges::any_of(plan.tensors, has_offset)) magic = kPlanMagicOfOffsets;
  std::string bytes(magic);
  const std::uint64_t header[2] = {buffer.size(), ContentHash64(buffer)};
  return bytes.append(reinterpret_cast<const char*>(header), sizeof(header));
}

class Encoder {
 public:
  // It begins with room for as many bytes. The unused ones are not touched, and a buffer that has to grow is copied.
  explicit Encoder(std::size_t room) : b_(room) {}

  // The FlatBuffer, which stays here.
  std::string_view Encode(const Plan& plan, const PlanInputs* inputs) {
    b_.Finish(EncodePlan(plan, inputs));
    return {reinterpret_cast<const char*>(b_.GetBufferPointer()), b_.GetSize()};
  }

 private:
  Offset<flat::Plan> EncodePlan(const Plan& plan, const PlanInputs* inputs) {
    auto tool_version = b_.CreateString(plan.tool_version);
    auto spec_hash = b_.CreateString(plan.spec_hash);
    auto source_format = b_.CreateString(plan.source_format);
    auto target_format = b_.CreateString(plan.target_format);
    auto source_mesh = EncodeMesh(plan.source_mesh);
    auto target_mesh = EncodeMesh(plan.target_mesh);
    auto source = EncodeTables(plan.source);
    auto target = EncodeTables(plan.target);
    auto directories = b_.CreateVectorOfStrings(plan.directories);
    auto blobs = EncodeAll(b_, plan.blobs, [&](const std::string& blob) {
      return flat::CreateBlob(b_, b_.CreateVector(reinterpret_cast<const std::uint8_t*>(blob.data()), blob.size()));
    });
    auto placements = EncodeStructs<flat::BlobPlacement>(b_, plan.placements, [](const BlobPlacement& p) {
      return flat::BlobPlacement(p.offset, p.file.value(), p.blob.value());
    });
    auto crc_fields = EncodeStructs<flat::CrcField>(b_, plan.crc_fields, [](const CrcField& field) {
      return flat::CrcField(field.offset, field.file.value(), field.record.value());
    });
    auto tensors = EncodeAll(b_, plan.tensors, [&](const PlanTensor& tensor) { return EncodeTensor(tensor); });
    auto sets = EncodeAll(b_, plan.sets, [&](const ProductSet& set) { return EncodeSet(set); });
    auto geometries = EncodeAll(b_, plan.geometries, [&](const Geometry& g) { return EncodeGeometry(g); });
    auto reads = EncodeAll(b_, plan.reads, [&](const PlanRead& read) { return EncodeRead(read); });
    auto writes = EncodeAll(b_, plan.writes, [&](const PlanWrite& write) { return EncodeWrite(write); });
    auto remarks = b_.CreateVectorOfStrings(plan.remarks);
    return flat::CreatePlan(b_, tool_version, spec_hash, source_format, target_format, source_mesh, target_mesh, source,
                            target, directories, blobs, placements, crc_fields, tensors, sets, geometries, reads,
                            writes, remarks, EncodeCoordinate(plan.preference.named),
                            EncodeAll(b_, plan.decisions, [&](const RankDecision& d) { return EncodeDecision(d); }),
                            EncodeReaders(plan.readers), inputs == nullptr ? 0 : EncodeInputs(*inputs),
                            EncodeLeftOut(plan.left_out));
  }

  Offset<flat::NamedText> EncodeText(const NamedText& text) {
    auto name = b_.CreateString(text.name);
    return flat::CreateNamedText(b_, name, b_.CreateString(text.text));
  }

  Offset<flat::Inputs> EncodeInputs(const PlanInputs& inputs) {
    auto source_strategy = b_.CreateString(inputs.source_strategy);
    auto target = b_.CreateString(inputs.target);
    auto spec = EncodeAll(b_, inputs.spec, [&](const NamedText& text) { return EncodeText(text); });
    auto config = inputs.config ? EncodeText(*inputs.config) : 0;
    auto ds_config = inputs.ds_config ? EncodeText(*inputs.ds_config) : 0;
    auto set = b_.CreateVectorOfStrings(inputs.set);
    auto unused = b_.CreateVectorOfStrings(inputs.unused);
    auto drop_states = b_.CreateVectorOfStrings(inputs.drop_states);
    auto keep_opaque = b_.CreateVectorOfStrings(inputs.keep_opaque);
    auto tag = b_.CreateString(inputs.tag);
    return flat::CreateInputs(b_, source_strategy, target, spec, config, ds_config, set, unused, drop_states,
                              keep_opaque, tag, inputs.trusts_replicas);
  }

  // Most plans leave nothing out, and have no such field.
  Offset<flatbuffers::Vector<Offset<flat::LeftOut>>> EncodeLeftOut(const std::vector<LeftOut>& left_out) {
    if (left_out.empty()) return 0;
    return EncodeAll(b_, left_out, [&](const LeftOut& one) {
      auto file = Shared(one.file);
      auto path = Shared(one.path);
      auto object = Shared(one.object);
      return flat::CreateLeftOut(b_, file, path, object, Shared(one.calls));
    });
  }

  // Nothing of files that any job opens: plans of those are what they were before plans said who opens what.
  Offset<flat::FileReaders> EncodeReaders(const FileReaders& readers) {
    if (readers.ranks == 0) return 0;
    auto sets = EncodeAll(b_, readers.sets, [&](const std::vector<int>& ranks) {
      return flat::CreateRankSet(b_, b_.CreateVector(ranks));
    });
    return flat::CreateFileReaders(b_, readers.ranks, sets, b_.CreateVector(readers.set_of_file));
  }

  Offset<flat::Decision> EncodeDecision(const RankDecision& decision) {
    auto what = b_.CreateString(decision.what);
    auto believed = b_.CreateString(decision.believed);
    auto believed_file = Shared(decision.believed_file);
    auto overruled = b_.CreateString(decision.overruled);
    return flat::CreateDecision(b_, what, believed, believed_file, overruled, Shared(decision.overruled_file),
                                decision.elements);
  }

  Offset<flat::Mesh> EncodeMesh(const Mesh& mesh) {
    return flat::CreateMesh(b_, EncodeAll(b_, mesh.axes, [&](const Axis& axis) {
                              return flat::CreateAxis(b_, b_.CreateString(axis.name), axis.size);
                            }));
  }

  Offset<flat::Tables> EncodeTables(const StorageTables& tables) {
    auto files = EncodeAll(b_, tables.files, [&](const StoredFile& file) {
      auto path = b_.CreateString(file.path);
      return flat::CreateFile(b_, path, file.bytes, b_.CreateString(file.header_hash));
    });
    auto records = EncodeStructs<flat::Record>(b_, tables.records, [](const Record& record) {
      return flat::Record(record.begin, record.bytes, record.file.value(), record.crc32.value_or(0),
                          record.crc32.has_value());
    });
    auto buffers = EncodeAll(b_, tables.buffers, [&](const Buffer& buffer) {
      auto parts = EncodeStructs<flat::BufferPart>(b_, buffer.parts, [](const BufferPart& part) {
        return flat::BufferPart(part.first_element, part.elements, part.record.value());
      });
      return flat::CreateBuffer(b_, static_cast<std::uint8_t>(buffer.dtype), buffer.part_elements, parts);
    });
    auto sets = EncodeAll(b_, tables.buffer_sets, [&](const BufferSet& set) {
      return flat::CreateBufferSet(b_, EncodeAll(b_, set, [&](const StateBuffer& entry) {
                                     return flat::CreateStateBuffer(b_, Shared(entry.state), entry.buffer.value());
                                   }));
    });
    return flat::CreateTables(b_, files, records, buffers, sets);
  }

  Offset<flat::Tensor> EncodeTensor(const PlanTensor& tensor) {
    auto name = b_.CreateString(tensor.logical.name);
    auto shape = b_.CreateVector(tensor.logical.shape);
    auto states = EncodeAll(b_, tensor.logical.states, [&](const LogicalTensor::State& state) {
      return flat::CreateState(b_, Shared(state.name), static_cast<std::uint8_t>(state.dtype));
    });
    const Arithmetic& a = tensor.arithmetic;
    return flat::CreateTensor(b_, name, static_cast<std::uint8_t>(tensor.logical.kind), shape, states,
                              Shared(tensor.declared_at), a.terms, a.divisor.numerator, a.divisor.denominator,
                              a.factor.numerator, a.factor.denominator, a.offset);
  }

  Offset<flat::ProductSet> EncodeSet(const ProductSet& set) {
    return flat::CreateProductSet(b_, EncodeAll(b_, set.dims, [&](const Selection& dim) {
                                    auto runs = EncodeStructs<flat::Run>(b_, dim.runs(), [](const Run& run) {
                                      return flat::Run(run.local_begin, run.logical_begin, run.length);
                                    });
                                    return flat::CreateSelection(b_, runs, dim.local_length());
                                  }));
  }

  Offset<flat::Geometry> EncodeGeometry(const Geometry& geometry) {
    auto dims = EncodeAll(b_, geometry.dims, [&](const std::vector<Progression>& dim) {
      return flat::CreateProgressions(b_, EncodeStructs<flat::Progression>(b_, dim, [](const Progression& p) {
                                        return flat::Progression(p.source_begin, p.target_begin, p.logical_begin,
                                                                 p.length, p.count, p.source_stride, p.target_stride,
                                                                 p.logical_stride);
                                      }));
    });
    return flat::CreateGeometry(b_, geometry.source.value(), geometry.target.value(), dims);
  }

  Offset<flatbuffers::Vector<Offset<flat::Place>>> EncodeCoordinate(const Coordinate& coordinate) {
    std::vector<Offset<flat::Place>> places;
    for (const auto& [axis, index] : coordinate.at) {
      places.push_back(flat::CreatePlace(b_, Shared(axis), index));
    }
    return b_.CreateVector(places);
  }

  Offset<flat::Read> EncodeRead(const PlanRead& read) {
    auto coordinate = EncodeCoordinate(read.coordinate);
    auto strides = b_.CreateVector(read.strides);
    return flat::CreateRead(b_, read.tensor.value(), static_cast<std::uint8_t>(read.role), read.set.value(), coordinate,
                            strides, read.base, static_cast<std::uint8_t>(read.spread), read.states.value(),
                            Shared(read.reason), read.term, read.is_overruled);
  }

  Offset<flat::Write> EncodeWrite(const PlanWrite& write) {
    auto coordinate = EncodeCoordinate(write.coordinate);
    const auto spread = static_cast<std::uint8_t>(write.spread);
    if (write.fused) {
      return flat::CreateWrite(b_, 0, 0, coordinate, write.base, spread, write.states.value(), 0, EncodeFused(write));
    }
    std::vector<std::uint32_t> more;
    for (std::size_t p = 1; p < write.pieces.size(); ++p) more.push_back(write.pieces[p].set.value());
    auto more_pieces = more.empty() ? 0 : b_.CreateVector(more);
    return flat::CreateWrite(b_, write.first_tensor().value(), write.pieces.front().set.value(), coordinate, write.base,
                             spread, write.states.value(), more_pieces);
  }

  Offset<flat::Fused> EncodeFused(const PlanWrite& write) {
    auto name = b_.CreateString(write.fused->name);
    auto shape = b_.CreateVector(write.fused->shape);
    auto pieces = EncodeAll(b_, write.pieces, [&](const WrittenPiece& piece) {
      auto strides = piece.strides.empty() ? 0 : b_.CreateVector(piece.strides);
      return flat::CreateFusedPiece(b_, piece.tensor.value(), piece.set.value(), piece.begin, strides);
    });
    auto part = write.fused->part ? EncodePart(*write.fused->part) : 0;
    return flat::CreateFused(b_, name, shape, pieces, write.fused->is_tensor, part);
  }

  Offset<flat::PartOfOwn> EncodePart(const PartOfOwn& part) {
    auto shape = b_.CreateVector(part.shape);
    std::vector<std::uint32_t> held;
    for (const SetId set : part.held) held.push_back(set.value());
    return flat::CreatePartOfOwn(b_, shape, b_.CreateVector(held));
  }

  // Values that are stored once, at their first place.
  Offset<flatbuffers::String> Shared(const std::string& text) {
    auto [known, is_new] = shared_.try_emplace(text);
    if (is_new) known->second = b_.CreateString(text);
    return known->second;
  }

  FlatBufferBuilder b_;
  llvm::StringMap<Offset<flatbuffers::String>> shared_;
};

// At least this many bytes will be needed; blobs and steps' tables are what can be large.
std::size_t RoughBytes(const Plan& plan) {
  std::size_t bytes = 0;
  for (const std::string& blob : plan.blobs) bytes += blob.size();
  bytes += plan.reads.size() * 64 + plan.writes.size() * 64 + plan.tensors.size() * 64;
  for (const StorageTables* tables : {&plan.source, &plan.target}) {
    bytes += tables->files.size() * 48 + tables->records.size() * sizeof(flat::Record) + tables->buffers.size() * 48;
  }
  for (const ProductSet& set : plan.sets) {
    for (const Selection& dim : set.dims) bytes += dim.runs().size() * sizeof(flat::Run);
  }
  return bytes;
}

llvm::Expected<Encoder> EncoderFor(const Plan& plan) {
  const std::size_t bytes = RoughBytes(plan);
  if (bytes <= kMaxBytes / 2) return Encoder(2 * bytes + 1024);
  return Fail(ErrorCode::kUnsupported, "the plan would need about {} bytes, and a plan file holds at most {}", bytes,
              kMaxBytes);
}

}  // namespace

llvm::Expected<std::string> EncodePlan(const Plan& plan, const PlanInputs* inputs) {
  UCP_ASSIGN_OR_RETURN(Encoder encoder, EncoderFor(plan));
  const std::string_view buffer = encoder.Encode(plan, inputs);
  return EnvelopeOf(plan, buffer).append(buffer);
}

llvm::Expected<std::string> HashOfPlan(const Plan& plan) {
  UCP_ASSIGN_OR_RETURN(Encoder encoder, EncoderFor(plan));
  const std::string_view buffer = encoder.Encode(plan, nullptr);
  return ContentHash(EnvelopeOf(plan, buffer), buffer);
}

}  // namespace ucp
