#include "tests/unit/runtime/executor/small_conversion.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>

#include "compiler/support/checked_math.h"
#include "runtime/digest/keyed_sum.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

std::uint32_t ZlibCrc32(const std::string& content, std::uint64_t begin, std::uint64_t bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(content.data() + begin), static_cast<uInt>(bytes)));
}

// Logical position of each local place; -1 for padding.
std::vector<std::int64_t> Positions(const Selection& selection) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(selection.local_length()), -1);
  for (const Run& run : selection.runs()) {
    for (std::int64_t i = 0; i < run.length; ++i) {
      positions[static_cast<std::size_t>(run.local_begin + i)] = run.logical_begin + i;
    }
  }
  return positions;
}

// For each element of the row-major local tensor: its row-major place in the whole tensor, or -1 for padding.
std::vector<std::int64_t> LogicalPlaces(const ProductSet& set, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> places = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (std::int64_t place : places) {
      for (std::int64_t position : Positions(set.dims[d])) {
        next.push_back(place < 0 || position < 0 ? -1 : place * shape[d] + position);
      }
    }
    places = std::move(next);
  }
  return places;
}

void AppendEvenPart(Selection& selection, std::int64_t begin, std::int64_t end, std::int64_t parts, std::int64_t part) {
  std::int64_t width = CeilDivide(end - begin, parts);
  std::int64_t first = std::min(end, begin + part * width);
  selection.Append(first, std::min(end, first + width) - first);
}

void Store(std::string& content, std::uint64_t offset, float value, DType dtype) {
  if (dtype == DType::kBFloat16) {
    std::uint16_t bits = SlowBFloat16(value);
    std::memcpy(content.data() + offset, &bits, sizeof bits);
  } else {
    std::memcpy(content.data() + offset, &value, sizeof value);
  }
}

}  // namespace

std::uint16_t SlowBFloat16(float value) {
  if (value == 0) return std::signbit(value) ? 0x8000 : 0;
  double unit = std::ldexp(1.0, std::max(std::ilogb(value), -126) - 7);
  auto rounded = static_cast<float>(std::nearbyint(value / unit) * unit);  // The default mode: ties to even.
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16);
}

float SmallConversion::Value(std::size_t tensor, const std::string& state, std::int64_t flat) {
  double sign = state == "exp_avg" ? -1 : 1;  // Masters and weights are the same number.
  return static_cast<float>(sign * (1 + static_cast<double>(tensor) * 4096 + static_cast<double>(flat)) * 1.001);
}

void SmallConversion::AddTensors() {
  for (const SmallTensor& tensor : tensors_) {
    LogicalTensor logical;
    logical.name = tensor.name;
    logical.shape = tensor.shape;
    for (const std::string& state : states_) logical.states.push_back({state, DType::kFloat32});
    plan_.tensors.push_back({logical, "a test"});
  }
  plan_.source_format = "test";
  plan_.target_format = "test";
}

ProductSet SmallConversion::SetOf(const SmallTensor& tensor, const SmallCut& cut, std::int64_t rank) const {
  ProductSet set = ProductSet::Whole(tensor.shape);
  auto rank_count = static_cast<std::int64_t>(tensor.shape.size());
  if (rank_count == 0) return set;
  std::int64_t dim = ((cut.cut_dim % rank_count) + rank_count) % rank_count;
  std::int64_t length = tensor.shape[static_cast<std::size_t>(dim)];
  Selection selection;
  if (cut.fused) {
    AppendEvenPart(selection, 0, length / 2, cut.tp, rank);
    AppendEvenPart(selection, length / 2, length, cut.tp, rank);
  } else {
    AppendEvenPart(selection, 0, length, cut.tp, rank);
  }
  if (cut.padding > 0) selection.AppendPadding(cut.padding);
  set.dims[static_cast<std::size_t>(dim)] = selection;
  return set;
}

SetId SmallConversion::AddSet(const ProductSet& set) {
  auto found = std::find(plan_.sets.begin(), plan_.sets.end(), set);
  if (found == plan_.sets.end()) found = plan_.sets.insert(found, set);
  return SetId(static_cast<std::size_t>(found - plan_.sets.begin()));
}

void SmallConversion::AddSource(const SmallCut& cut, ReadRole role, const std::string& prefix) {
  AddSide(cut, true, role, prefix);
}

void SmallConversion::SetTarget(const SmallCut& cut) {
  target_cut_ = cut;
  plan_.directories = {"out", "out/deep"};
  AddSide(cut, false, ReadRole::kCopy, "out/deep/target_");
}

void SmallConversion::AddSide(const SmallCut& cut, bool is_source, ReadRole role, const std::string& prefix) {
  StorageTables& tables = is_source ? plan_.source : plan_.target;
  auto& contents = is_source ? source_contents_ : target_contents_;
  std::vector<std::string> states = states_;
  bool weights = role == ReadRole::kCheckRounding || cut.weights;
  if (weights) states = {"weight"};
  if (cut.weights) {
    for (PlanTensor& tensor : plan_.tensors) tensor.logical.states = {{"weight", DType::kFloat32}};
  }
  DType dtype = weights ? DType::kBFloat16 : DType::kFloat32;
  std::int64_t item = ItemBytes(dtype);

  for (std::int64_t tp = 0; tp < cut.tp; ++tp) {
    // A rank without any part of a tensor cannot hold it, in files as in life; see the shapes in the tests.
    std::vector<ProductSet> sets;
    std::vector<std::int64_t> bases;
    std::int64_t used = 0;  // Of the buffer (kAcrossBuffer) or of each part (kEachTensor).
    for (const SmallTensor& tensor : tensors_) {
      sets.push_back(SetOf(tensor, cut, tp));
      used = CeilDivide(used, cut.alignment) * cut.alignment;
      bases.push_back(used);
      std::int64_t elements = sets.back().local_elements();
      used += cut.spread == Spread::kAcrossBuffer ? elements : CeilDivide(elements, cut.dp);
    }
    std::int64_t part_elements = cut.spread == Spread::kAcrossBuffer ? CeilDivide(used, cut.dp) : used;

    // Files: a header, then a record for each state with three bytes before it, then a tail.
    std::map<std::string, Buffer> buffers;
    std::map<FileId, std::vector<bool>> holds_element;
    for (std::int64_t dp = 0; dp < cut.dp; ++dp) {
      FileId file =
          tables.Add(StoredFile{fmt::format("{}tp{}_dp{}{}", prefix, tp, dp, is_source ? "" : ".safetensors"), 0, ""});
      std::uint64_t end = 16;
      for (const std::string& state : states) {
        std::int64_t lead = cut.dp == 1 ? 2 : 0;  // Some elements before the part begins.
        auto bytes = static_cast<std::uint64_t>((lead + part_elements) * item);
        RecordId record = tables.Add(Record{file, end + 3, bytes, std::nullopt});
        end += 3 + bytes;
        buffers[state].dtype = dtype;
        buffers[state].part_elements = part_elements;
        buffers[state].parts.push_back({record, lead, part_elements});
      }
      tables.files[file.index()].bytes = end + 11;
      contents[tables.files[file.index()].path].assign(end + 11, '\0');
      holds_element[file].assign(end + 11, false);
    }

    BufferSet set;
    for (const auto& [state, buffer] : buffers) set.push_back({state, tables.Add(buffer)});
    BufferSetId states_id = tables.Add(set);
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const ProductSet& product = sets[t];
      Coordinate coordinate{{{"tp", tp}}};
      std::vector<std::int64_t> shape = product.LocalShape();
      std::vector<std::int64_t> strides;
      if (is_source && cut.transposed) {
        strides.assign(shape.size(), 1);
        for (std::size_t d = 1; d < shape.size(); ++d) strides[d] = strides[d - 1] * shape[d - 1];
      }
      if (is_source) {
        plan_.reads.push_back(
            {TensorId(t), role, AddSet(product), coordinate, strides, bases[t], cut.spread, states_id, "", cut.term});
      } else {
        plan_.writes.push_back({{{TensorId(t), AddSet(product)}}, coordinate, bases[t], cut.spread, states_id});
      }

      // Every element to its place.
      std::vector<std::int64_t> places = LogicalPlaces(product, tensors_[t].shape);
      auto count = static_cast<std::int64_t>(places.size());
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t logical = places[static_cast<std::size_t>(i)];
        std::int64_t local = i;
        if (!strides.empty()) {
          local = 0;
          std::int64_t rest = i;
          for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) local += rest % shape[d] * strides[d];
        }
        bool across = cut.spread == Spread::kAcrossBuffer;
        std::int64_t width = across ? part_elements : CeilDivide(count, cut.dp);
        std::int64_t part = across ? (bases[t] + local) / width : local / width;
        std::int64_t place = across ? (bases[t] + local) % width : bases[t] + local % width;
        for (const auto& [state, buffer] : buffers) {
          const BufferPart& where = buffer.parts[static_cast<std::size_t>(part)];
          const Record& record = tables.record(where.record);
          std::uint64_t offset = record.begin + static_cast<std::uint64_t>((where.first_element + place) * item);
          // Padding of a source is not zero, so that a copy of it would show.
          float value = is_source ? 777.0F : 0.0F;
          if (logical >= 0) value = Value(t, state, logical) * cut.times + cut.plus;
          Store(contents[tables.file(where.record).path], offset, value, dtype);
          std::fill_n(holds_element[record.file].begin() + static_cast<std::ptrdiff_t>(offset), item, true);
        }
      }
    }
    if (!is_source) {
      for (const auto& [file, holds] : holds_element) AddBlobs(file, holds);
    }
  }
}

// The target's bytes other than elements, also those within records, with two checksum fields for each record: in the
// header and in the tail of the file.
void SmallConversion::AddBlobs(FileId file, const std::vector<bool>& holds_element) {
  std::string& content = target_contents_[plan_.target.files[file.index()].path];
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (!holds_element[i]) content[i] = static_cast<char>('A' + i % 26);
  }
  std::string blank = content;  // With zeros in the fields, as blobs have them.
  std::uint64_t header = 1;
  std::uint64_t tail = content.size() - 9;
  for (std::size_t r = 0; r < plan_.target.records.size(); ++r) {
    const Record& record = plan_.target.records[r];
    if (record.file != file) continue;
    std::uint32_t crc = ZlibCrc32(content, record.begin, record.bytes);
    for (std::uint64_t* offset : {&header, &tail}) {
      plan_.crc_fields.push_back({file, *offset, RecordId(r)});
      for (std::uint64_t i = 0; i < 4; ++i) {
        content[*offset + i] = static_cast<char>(crc >> (8 * i));
        blank[*offset + i] = '\0';
      }
      *offset += 4;
    }
  }
  for (std::size_t begin = 0; begin < content.size();) {
    std::size_t end = begin;
    while (end < content.size() && !holds_element[end]) ++end;
    if (end > begin) {
      plan_.blobs.push_back(blank.substr(begin, end - begin));
      plan_.placements.push_back({file, begin, BlobId(plan_.blobs.size() - 1)});
    }
    begin = std::max(end, begin + 1);
  }
}

void SmallConversion::Finish() {
  std::stable_sort(plan_.reads.begin(), plan_.reads.end(), [](const PlanRead& a, const PlanRead& b) {
    return std::tuple(a.tensor, a.term, a.role) < std::tuple(b.tensor, b.term, b.role);
  });
  std::stable_sort(plan_.writes.begin(), plan_.writes.end(),
                   [](const PlanWrite& a, const PlanWrite& b) { return a.first_tensor() < b.first_tensor(); });
  std::map<std::pair<SetId, SetId>, Geometry> geometries;
  for (const PlanRead& read : plan_.reads) {
    for (const PlanWrite& write : plan_.writes) {
      if (read.tensor != write.first_tensor()) continue;
      SetId piece = write.pieces.front().set;
      Geometry geometry{read.set, piece, {}};
      bool meet = true;
      for (std::size_t d = 0; d < plan_.set(read.set).dims.size(); ++d) {
        geometry.dims.push_back(Intersect(plan_.set(read.set).dims[d], plan_.set(piece).dims[d]));
        meet = meet && !geometry.dims.back().empty();
      }
      if (meet) geometries[{read.set, piece}] = geometry;
    }
  }
  for (auto& [sets, geometry] : geometries) plan_.geometries.push_back(geometry);
  for (Record& record : plan_.source.records) {
    record.crc32 =
        ZlibCrc32(source_contents_[plan_.source.files[record.file.index()].path], record.begin, record.bytes);
  }
}

void SmallConversion::WriteSource(const std::string& folder) const {
  for (const auto& [path, content] : source_contents_) WriteTestFile(folder + "/" + path, content);
}

std::map<std::string, std::string> SmallConversion::ExpectedFiles() const { return target_contents_; }

std::vector<std::string> SmallConversion::ExpectedDigests() const {
  std::vector<std::string> digests;
  const DType dtype = target_cut_.weights ? DType::kBFloat16 : DType::kFloat32;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    std::int64_t elements = 1;
    for (std::int64_t length : tensors_[t].shape) elements *= length;
    for (const LogicalTensor::State& state : plan_.tensors[t].logical.states) {
      std::string whole(static_cast<std::size_t>(elements * ItemBytes(dtype)), '\0');
      for (std::int64_t i = 0; i < elements; ++i) {
        float value = Value(t, state.name, i) * target_cut_.times + target_cut_.plus;
        Store(whole, static_cast<std::uint64_t>(i * ItemBytes(dtype)), value, dtype);
      }
      KeyedSum sum;
      sum.AddElements(0, static_cast<std::uint64_t>(ItemBytes(dtype)), std::as_bytes(std::span(whole)));
      const std::string digest = StateDigestOf(sum, {Name(dtype), tensors_[t].shape, state.name});
      digests.push_back(fmt::format("{} {} {} {}", tensors_[t].name, state.name, Name(dtype), digest));
    }
  }
  return digests;
}

std::map<std::string, std::string> FilesUnder(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      std::string path = entry.path();
      files[path.substr(folder.size() + 1)] = ReadTestFile(path);
    }
  }
  return files;
}

}  // namespace ucp
