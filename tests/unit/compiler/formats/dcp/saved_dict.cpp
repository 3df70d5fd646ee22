#include "tests/unit/compiler/formats/dcp/saved_dict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "compiler/formats/pytorch/archive/archive_writer.h"
#include "compiler/formats/pytorch/pickle/pickle_writer.h"
#include "compiler/support/checksum.h"

namespace ucp::dcp {
namespace {

using pytorch::MakeGlobal;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::MakeTuple;
using pytorch::ValuePtr;

std::string KeyOf(const std::vector<PathPart>& path) {
  std::string key;
  for (const PathPart& part : path) {
    const auto* text = std::get_if<std::string>(&part);
    key += (key.empty() ? "" : ".") + (text != nullptr ? *text : std::to_string(std::get<std::int64_t>(part)));
  }
  return key;
}

ValuePtr Properties() {
  const ValuePtr layout = pytorch::MakeCall({pytorch::Call::Form::kReduce,
                                             MakeGlobal("torch.serialization", "_get_layout"),
                                             MakeTuple({MakeText("torch.strided")}),
                                             {},
                                             {},
                                             nullptr});
  return pytorch::MakeCall({pytorch::Call::Form::kNewObject,
                            MakeGlobal(kMetadataModule, "TensorProperties"),
                            MakeTuple({}),
                            {},
                            {},
                            MakeTuple({pytorch::MakeDTypeGlobal(DType::kFloat32), layout, pytorch::MakeBool(false),
                                       MakeInteger(0), pytorch::MakeBool(false)})});
}

// The archive of a float32 tensor with these elements.
std::string ArchiveOf(const std::vector<float>& elements, const std::vector<std::int64_t>& sizes) {
  const std::uint64_t bytes = elements.size() * sizeof(float);
  const pytorch::StorageToWrite storage{DType::kFloat32, bytes};
  const pytorch::ArchiveLayout layout =
      pytorch::LayOutArchive("archive", *pytorch::MakeWholeTensor("0", DType::kFloat32, sizes), {&storage, 1});
  std::string archive(layout.bytes, '\0');
  for (const pytorch::Blob& blob : layout.blobs) archive.replace(blob.offset, blob.bytes.size(), blob.bytes);
  if (bytes > 0) std::memcpy(archive.data() + layout.storages[0].offset, elements.data(), bytes);
  const std::uint32_t crc32 = Crc32(std::string_view(archive).substr(layout.storages[0].offset, bytes));
  for (const std::uint64_t place : layout.storages[0].crc32_offsets) std::memcpy(archive.data() + place, &crc32, 4);
  return archive;
}

// Of a row-major tensor, those within a box.
std::vector<float> ElementsIn(const Box& box, const std::vector<std::int64_t>& shape, float first) {
  std::vector<float> elements;
  std::int64_t count = 1;
  for (const std::int64_t size : box.sizes) count *= size;
  if (box.sizes.size() != shape.size()) return std::vector<float>(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = 0;
    std::int64_t stride = 1;
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) {
      place += (box.offsets[d] + rest % box.sizes[d]) * stride;
      rest /= box.sizes[d];
      stride *= shape[d];
    }
    elements.push_back(first + static_cast<float>(place));
  }
  return elements;
}

}  // namespace

ValuePtr Object(const std::string& module, const std::string& name, std::vector<pytorch::Entry> attributes) {
  return pytorch::MakeCall({pytorch::Call::Form::kNewObject,
                            MakeGlobal(module, name),
                            MakeTuple({}),
                            {},
                            {},
                            attributes.empty() ? nullptr : pytorch::MakeDict(std::move(attributes))});
}

void SavedDict::Place(const std::string& key, ValuePtr offsets, std::size_t number, const std::string& archive) {
  std::string file = fmt::format("__{}_0.distcp", number);
  placed_.push_back({key, std::move(offsets), file, files_[file].size(), archive.size()});
  files_[file] += archive;
}

void SavedDict::Add(const std::vector<PathPart>& path, ValuePtr described) {
  std::vector<ValuePtr> parts;
  for (const PathPart& part : path) {
    const auto* text = std::get_if<std::string>(&part);
    parts.push_back(text != nullptr ? MakeText(*text) : MakeInteger(std::get<std::int64_t>(part)));
  }
  described_.push_back({MakeText(KeyOf(path)), std::move(described)});
  paths_.push_back({MakeText(KeyOf(path)), MakeTuple(std::move(parts))});
}

SavedDict& SavedDict::Tensor(std::vector<std::string> path, std::vector<std::int64_t> shape, float first,
                             std::vector<Box> boxes) {
  const std::vector<PathPart> parts(path.begin(), path.end());
  if (boxes.empty()) boxes = {{std::vector<std::int64_t>(shape.size(), 0), shape}};
  std::vector<ValuePtr> chunks;
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    const ValuePtr offsets = pytorch::MakeTorchSize(boxes[b].offsets);
    chunks.push_back(
        Object(kMetadataModule, "ChunkStorageMetadata",
               {{MakeText("offsets"), offsets}, {MakeText("sizes"), pytorch::MakeTorchSize(boxes[b].sizes)}}));
    Place(KeyOf(parts), offsets, b, ArchiveOf(ElementsIn(boxes[b], shape, first), boxes[b].sizes));
  }
  Add(parts, Object(kMetadataModule, "TensorStorageMetadata",
                    {{MakeText("properties"), Properties()},
                     {MakeText("size"), pytorch::MakeTorchSize(shape)},
                     {MakeText("chunks"), pytorch::MakeList(std::move(chunks))}}));
  return *this;
}

SavedDict& SavedDict::Value(const std::vector<PathPart>& path, const ValuePtr& value) {
  const pytorch::ArchiveLayout layout = pytorch::LayOutArchive("archive", *value, {});
  std::string archive(layout.bytes, '\0');
  for (const pytorch::Blob& blob : layout.blobs) archive.replace(blob.offset, blob.bytes.size(), blob.bytes);
  Place(KeyOf(path), nullptr, 0, archive);
  Add(path, Object(kMetadataModule, "BytesStorageMetadata", {}));
  return *this;
}

ValuePtr SavedDict::Metadata() const {
  std::vector<pytorch::Entry> places;
  for (const Placed& placed : placed_) {
    std::vector<pytorch::Entry> index = {{MakeText("fqn"), MakeText(placed.key)}, {MakeText("index"), MakeInteger(0)}};
    if (placed.offsets) index.push_back({MakeText("offset"), placed.offsets});
    places.push_back({Object(kMetadataModule, "MetadataIndex", std::move(index)),
                      Object(kFilesModule, "_StorageInfo",
                             {{MakeText("relative_path"), MakeText(placed.file)},
                              {MakeText("offset"), MakeInteger(static_cast<std::int64_t>(placed.offset))},
                              {MakeText("length"), MakeInteger(static_cast<std::int64_t>(placed.bytes))}})});
  }
  return Object(kMetadataModule, "Metadata",
                {{MakeText("state_dict_metadata"), pytorch::MakeDict(described_)},
                 {MakeText("planner_data"), pytorch::MakeDict(paths_)},
                 {MakeText("storage_data"), pytorch::MakeDict(std::move(places))}});
}

void SavedDict::WriteTo(const std::string& folder) const {
  std::ofstream(folder + "/.metadata", std::ios::binary) << pytorch::WritePickle(*Metadata());
  for (const auto& [name, content] : files_) std::ofstream(folder + "/" + name, std::ios::binary) << content;
}

std::string SamplePath(const std::string& name) {
  return std::string(UCP_SOURCE_DIR) + "/tests/unit/compiler/formats/dcp/samples/" + name;
}

std::string FileContent(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace ucp::dcp
