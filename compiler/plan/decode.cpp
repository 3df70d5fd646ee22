// Decoding an untrusted plan file: the envelope, the FlatBuffer's own verifier, then every enumeration and every table,
// so that what comes out is a Plan whose ids VerifyPlan() can follow.
#include <fmt/format.h>
#include <plan_generated.h>

#include <cstring>

#include "compiler/plan/codec.h"
#include "compiler/plan/envelope.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

llvm::Error Corrupt(const std::string& what) {
  return Fail(ErrorCode::kBadData, "this is not a sound plan file: {}; make it again with `ucpc plan`", what);
}

char VersionOf(std::string_view bytes) { return bytes[7]; }

llvm::Expected<std::string_view> OpenEnvelope(std::string_view bytes) {
  if (bytes.size() < kPlanEnvelopeBytes || bytes.substr(0, 7) != kPlanName) {
    return Corrupt("it does not begin with `UCPPLAN`");
  }
  if (VersionOf(bytes) < VersionOf(kPlanMagic) || VersionOf(bytes) > VersionOf(kPlanMagicOfOffsets)) {
    return Corrupt(fmt::format("it has version {}, and this program knows versions {} to {}",
                               static_cast<int>(VersionOf(bytes)), static_cast<int>(VersionOf(kPlanMagic)),
                               static_cast<int>(VersionOf(kPlanMagicOfOffsets))));
  }
  std::uint64_t header[2];
  std::memcpy(header, bytes.data() + 8, sizeof(header));
  std::string_view buffer = bytes.substr(kPlanEnvelopeBytes);
  if (header[0] != buffer.size()) {
    return Corrupt(fmt::format("it says that {} bytes follow, and {} do", header[0], buffer.size()));
  }
  if (header[1] != ContentHash64(buffer)) return Corrupt("its checksum does not match its content");
  return buffer;
}

// Collects the first thing that is wrong, so that decoding reads as a list of tables.
class Decoder {
 public:
  Decoder(std::size_t bytes, char version)
      : version_(version), items_left_(bytes / sizeof(std::int32_t)), text_left_(kMostTextForEachByte * bytes) {}

  Plan Decode(const flat::Plan& f) {
    Plan plan;
    plan.tool_version = Text(f.tool_version());
    plan.spec_hash = Text(f.spec_hash());
    plan.source_format = Text(f.source_format());
    plan.target_format = Text(f.target_format());
    plan.source_mesh = DecodeMesh(f.source_mesh());
    plan.target_mesh = DecodeMesh(f.target_mesh());
    plan.source = DecodeTables(f.source());
    plan.target = DecodeTables(f.target());
    plan.directories = Texts(f.directories());
    Each(f.blobs(), [&](const flat::Blob* blob) {
      const auto* bytes = blob->bytes();
      if (bytes != nullptr) CountText(bytes->size());
      if (!error_.empty()) return;
      plan.blobs.emplace_back(
          bytes == nullptr ? "" : std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
    });
    Each(f.placements(), [&](const flat::BlobPlacement* p) {
      plan.placements.push_back({FileId(p->file()), p->offset(), BlobId(p->blob())});
    });
    Each(f.crc_fields(), [&](const flat::CrcField* c) {
      plan.crc_fields.push_back({FileId(c->file()), c->offset(), RecordId(c->record())});
    });
    Each(f.tensors(), [&](const flat::Tensor* tensor) { plan.tensors.push_back(DecodeTensor(*tensor)); });
    Each(f.sets(), [&](const flat::ProductSet* set) { plan.sets.push_back(DecodeSet(*set)); });
    Each(f.geometries(), [&](const flat::Geometry* g) { plan.geometries.push_back(DecodeGeometry(*g)); });
    Each(f.reads(), [&](const flat::Read* read) { plan.reads.push_back(DecodeRead(*read)); });
    Each(f.writes(), [&](const flat::Write* write) { plan.writes.push_back(DecodeWrite(*write)); });
    plan.remarks = Texts(f.remarks());
    plan.preference.named = DecodeCoordinate(f.preference());
    Each(f.decisions(), [&](const flat::Decision* d) {
      plan.decisions.push_back({Text(d->what()), Text(d->believed()), Text(d->believed_file()), Text(d->overruled()),
                                Text(d->overruled_file()), d->elements()});
    });
    plan.readers = DecodeReaders(f.readers());
    Each(f.left_out(), [&](const flat::LeftOut* one) {
      plan.left_out.push_back({Text(one->file()), Text(one->path()), Text(one->object()), Text(one->calls())});
    });
    return plan;
  }

  PlanInputs Decode(const flat::Inputs& f) {
    PlanInputs inputs;
    inputs.source_strategy = Text(f.source_strategy());
    inputs.target = Text(f.target());
    Each(f.spec(), [&](const flat::NamedText* text) { inputs.spec.push_back(DecodeText(*text)); });
    if (f.config() != nullptr) inputs.config = DecodeText(*f.config());
    if (f.ds_config() != nullptr) inputs.ds_config = DecodeText(*f.ds_config());
    inputs.set = Texts(f.set());
    inputs.unused = Texts(f.unused());
    inputs.drop_states = Texts(f.drop_states());
    inputs.keep_opaque = Texts(f.keep_opaque());
    inputs.tag = Text(f.tag());
    inputs.trusts_replicas = f.trusts_replicas();
    return inputs;
  }

  const std::string& error() const { return error_; }

 private:
  // Rows may share a text, such as a state's name. A plan of ours has less text than its file has bytes.
  static constexpr std::size_t kMostTextForEachByte = 16;

  void CountText(std::size_t bytes) {
    if (bytes > text_left_) return Wrong("its rows share texts, and have more than any plan has");
    text_left_ -= bytes;
  }

  // FlatBuffers' verifier checks where a vector begins for its length only; items of eight bytes need more.
  template <typename Item, typename Visit>
  void Each(const flatbuffers::Vector<Item>* vector, Visit visit) {
    if (vector == nullptr || vector->size() == 0) return;
    bool needs_eight = flatbuffers::IndirectHelper<Item>::element_stride % 8 == 0;
    if (needs_eight && reinterpret_cast<std::uintptr_t>(vector->Data()) % 8 != 0) {
      Wrong("a table is not aligned");
      return;
    }
    if (vector->size() > items_left_) return Wrong("its tables share rows");
    items_left_ -= vector->size();
    for (auto item : *vector) visit(item);
  }

  std::string Text(const flatbuffers::String* text) {
    if (text != nullptr) CountText(text->size());
    return text == nullptr || !error_.empty() ? "" : text->str();
  }

  template <typename List>
  std::vector<std::string> Texts(const List* list) {
    std::vector<std::string> texts;
    Each(list, [&](const flatbuffers::String* text) { texts.push_back(Text(text)); });
    return texts;
  }

  NamedText DecodeText(const flat::NamedText& f) { return {Text(f.name()), Text(f.text())}; }

  void Wrong(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  // The enumerators of `Enum` are 0 to `last`.
  template <typename Enum>
  Enum DecodeEnum(std::uint8_t value, Enum last, const char* what) {
    if (value <= static_cast<std::uint8_t>(last)) return static_cast<Enum>(value);
    Wrong(fmt::format("{} is not a known {}", value, what));
    return last;
  }

  Mesh DecodeMesh(const flat::Mesh* f) {
    Mesh mesh;
    if (f != nullptr) Each(f->axes(), [&](const flat::Axis* a) { mesh.axes.push_back({Text(a->name()), a->size()}); });
    return mesh;
  }

  StorageTables DecodeTables(const flat::Tables* f) {
    StorageTables tables;
    if (f == nullptr) return tables;
    Each(f->files(), [&](const flat::File* file) {
      tables.files.push_back({Text(file->path()), file->bytes(), Text(file->header_hash())});
    });
    Each(f->records(), [&](const flat::Record* r) {
      std::optional<std::uint32_t> crc32;
      if (r->has_crc32()) crc32 = r->crc32();
      tables.records.push_back({FileId(r->file()), r->begin(), r->bytes(), crc32});
    });
    Each(f->buffers(), [&](const flat::Buffer* b) {
      Buffer buffer{DecodeEnum(b->dtype(), DType::kFloat8E5M2FNUZ, "dtype"), b->part_elements(), {}};
      Each(b->parts(), [&](const flat::BufferPart* part) {
        buffer.parts.push_back({RecordId(part->record()), part->first_element(), part->elements()});
      });
      tables.buffers.push_back(std::move(buffer));
    });
    Each(f->buffer_sets(), [&](const flat::BufferSet* s) {
      BufferSet set;
      Each(s->states(), [&](const flat::StateBuffer* e) { set.push_back({Text(e->state()), BufferId(e->buffer())}); });
      tables.buffer_sets.push_back(std::move(set));
    });
    return tables;
  }

  PlanTensor DecodeTensor(const flat::Tensor& f) {
    PlanTensor tensor;
    tensor.logical.name = Text(f.name());
    tensor.logical.kind = DecodeEnum(f.kind(), TensorKind::kCarried, "kind of tensor");
    Each(f.shape(), [&](std::int64_t length) { tensor.logical.shape.push_back(length); });
    Each(f.states(), [&](const flat::State* state) {
      tensor.logical.states.push_back(
          {Text(state->name()), DecodeEnum(state->dtype(), DType::kFloat8E5M2FNUZ, "dtype")});
    });
    tensor.declared_at = Text(f.declared_at());
    tensor.arithmetic = {f.terms(),
                         {f.divisor_numerator(), f.divisor_denominator()},
                         {f.factor_numerator(), f.factor_denominator()},
                         f.offset()};
    if (f.offset() != 0 && version_ < VersionOf(kPlanMagicOfOffsets)) {
      Wrong(fmt::format("it has version {}, and offsets", static_cast<int>(version_)));
    }
    return tensor;
  }

  // Rebuilds the selection run by run, so that it keeps its own promises whatever the file says.
  ProductSet DecodeSet(const flat::ProductSet& f) {
    ProductSet set;
    Each(f.dims(), [&](const flat::Selection* dim) {
      Selection selection;
      constexpr std::int64_t kLimit = std::int64_t{1} << 60;
      Each(dim->runs(), [&](const flat::Run* run) {
        bool sound = run->length() > 0 && run->length() < kLimit && run->logical_begin() >= 0 &&
                     run->logical_begin() < kLimit && run->local_begin() >= selection.local_length() &&
                     run->local_begin() < kLimit;
        if (!sound) {
          Wrong("a product set has runs that are not sorted, or out of range");
          return;
        }
        selection.AppendPadding(run->local_begin() - selection.local_length());
        selection.Append(run->logical_begin(), run->length());
      });
      if (dim->local_length() < selection.local_length() || dim->local_length() >= kLimit) {
        Wrong("a product set is shorter than its runs");
      } else {
        selection.AppendPadding(dim->local_length() - selection.local_length());
      }
      set.dims.push_back(std::move(selection));
    });
    return set;
  }

  Geometry DecodeGeometry(const flat::Geometry& f) {
    Geometry geometry{SetId(f.source()), SetId(f.target()), {}};
    Each(f.dims(), [&](const flat::Progressions* dim) {
      std::vector<Progression> progressions;
      Each(dim->items(), [&](const flat::Progression* p) {
        progressions.push_back({p->source_begin(), p->target_begin(), p->logical_begin(), p->length(), p->count(),
                                p->source_stride(), p->target_stride(), p->logical_stride()});
      });
      geometry.dims.push_back(std::move(progressions));
    });
    return geometry;
  }

  template <typename Places>
  Coordinate DecodeCoordinate(const Places* places) {
    Coordinate coordinate;
    Each(places, [&](const flat::Place* place) { coordinate.at[Text(place->axis())] = place->index(); });
    return coordinate;
  }

  FileReaders DecodeReaders(const flat::FileReaders* f) {
    FileReaders readers;
    if (f == nullptr) return readers;
    readers.ranks = f->ranks();
    Each(f->sets(), [&](const flat::RankSet* set) {
      std::vector<int>& ranks = readers.sets.emplace_back();
      Each(set->ranks(), [&](int rank) { ranks.push_back(rank); });
    });
    Each(f->set_of_file(), [&](std::uint32_t set) { readers.set_of_file.push_back(set); });
    return readers;
  }

  PlanRead DecodeRead(const flat::Read& f) {
    PlanRead read;
    read.tensor = TensorId(f.tensor());
    read.role = DecodeEnum(f.role(), ReadRole::kUnused, "use of a source shard");
    read.set = SetId(f.set());
    read.coordinate = DecodeCoordinate(f.coordinate());
    Each(f.strides(), [&](std::int64_t stride) { read.strides.push_back(stride); });
    read.base = f.base();
    read.spread = DecodeEnum(f.spread(), Spread::kEachTensor, "spread");
    read.states = BufferSetId(f.states());
    read.reason = Text(f.reason());
    read.term = f.term();
    read.is_overruled = f.is_overruled();
    return read;
  }

  PlanWrite DecodeWrite(const flat::Write& f) {
    PlanWrite write;
    if (f.fused() != nullptr) {
      DecodeFused(*f.fused(), write);
    } else {
      write.pieces.push_back({TensorId(f.tensor()), SetId(f.set())});
      Each(f.more_pieces(), [&](std::uint32_t piece) { write.pieces.push_back({TensorId(f.tensor()), SetId(piece)}); });
    }
    write.coordinate = DecodeCoordinate(f.coordinate());
    write.base = f.base();
    write.spread = DecodeEnum(f.spread(), Spread::kEachTensor, "spread");
    write.states = BufferSetId(f.states());
    return write;
  }

  void DecodeFused(const flat::Fused& f, PlanWrite& write) {
    if (version_ < VersionOf(kFusedPlanMagic)) return Wrong("it has version 1, and fused shards");
    FusedTensor& fused = write.fused.emplace();
    fused.name = Text(f.name());
    Each(f.shape(), [&](std::int64_t length) { fused.shape.push_back(length); });
    fused.is_tensor = f.is_tensor();
    if (f.part() != nullptr) DecodePart(*f.part(), fused);
    Each(f.pieces(), [&](const flat::FusedPiece* piece) {
      write.pieces.push_back({TensorId(piece->tensor()), SetId(piece->set()), piece->begin()});
      Each(piece->strides(), [&](std::int64_t stride) { write.pieces.back().strides.push_back(stride); });
    });
    if (write.pieces.empty()) Wrong("a fused shard has no pieces");
  }

  void DecodePart(const flat::PartOfOwn& f, FusedTensor& fused) {
    if (version_ < VersionOf(kPlanMagicOfParts))
      return Wrong("it has version 2, and parts of the target's own tensors");
    PartOfOwn& part = fused.part.emplace();
    Each(f.shape(), [&](std::int64_t length) { part.shape.push_back(length); });
    Each(f.held(), [&](std::uint32_t set) { part.held.push_back(SetId(set)); });
  }

  const char version_;
  // The most that the file has room for. Any number of rows may refer to one list or one text, and memory would know no
  // bound.
  std::size_t items_left_;
  std::size_t text_left_;
  std::string error_;
};

}  // namespace

llvm::Expected<PlanWithInputs> DecodePlanWithInputs(std::string_view bytes) {
  UCP_ASSIGN_OR_RETURN(std::string_view buffer, OpenEnvelope(bytes));
  std::vector<std::uint64_t> aligned;
  if (reinterpret_cast<std::uintptr_t>(buffer.data()) % alignof(std::uint64_t) != 0) {
    aligned.resize(buffer.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(aligned.data(), buffer.data(), buffer.size());
    buffer = std::string_view(reinterpret_cast<const char*>(aligned.data()), buffer.size());
  }
  // A plan may have more tables than FlatBuffers expects by default; each takes at least four bytes.
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(buffer.data()), buffer.size(), 64,
                                 static_cast<flatbuffers::uoffset_t>(buffer.size() / 4 + 1));
  if (!flat::VerifyPlanBuffer(verifier)) return Corrupt("its tables do not fit together");
  Decoder decoder(buffer.size(), VersionOf(bytes));
  const flat::Plan& plan = *flat::GetPlan(buffer.data());
  PlanWithInputs decoded{decoder.Decode(plan), std::nullopt};
  if (plan.inputs() != nullptr) decoded.inputs = decoder.Decode(*plan.inputs());
  if (!decoder.error().empty()) return Corrupt(decoder.error());
  return decoded;
}

llvm::Expected<Plan> DecodePlan(std::string_view bytes) {
  UCP_ASSIGN_OR_RETURN(PlanWithInputs decoded, DecodePlanWithInputs(bytes));
  return std::move(decoded.plan);
}

}  // namespace ucp
