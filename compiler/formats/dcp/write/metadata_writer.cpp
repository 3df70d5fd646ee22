// The instructions are written one behind the other, without a tree of values: there may be a million chunks. Classes
// and texts that come again are named by the number that they got when they came first, as Python's own pickler does.
#include "compiler/formats/dcp/write/metadata_writer.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ucp::dcp {
namespace {

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kOldModule = "torch.distributed._shard.sharded_tensor.metadata";
constexpr std::string_view kStorageModule = "torch.distributed.checkpoint.filesystem";

class PickleStream {
 public:
  PickleStream() { bytes_ = "\x80\x02"; }

  std::string Finish() {
    Code('.');
    return std::move(bytes_);
  }

  void Code(char code) { bytes_.push_back(code); }
  void None() { Code('N'); }
  void False() { Code('\x89'); }

  void Integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      Code('K');
      Little(static_cast<std::uint64_t>(value), 1);
    } else if (value >= 0 && value < 65536) {
      Code('M');
      Little(static_cast<std::uint64_t>(value), 2);
    } else if (value >= -2147483648LL && value <= 2147483647LL) {
      Code('J');
      Little(static_cast<std::uint64_t>(value), 4);
    } else {
      Code('\x8a');
      Code(8);
      Little(static_cast<std::uint64_t>(value), 8);
    }
  }

  void Text(std::string_view text) {
    const auto [known, is_new] = texts_.try_emplace(std::string(text), next_number_);
    if (!is_new) return Recall(known->second);
    Code('X');
    Little(text.size(), 4);
    bytes_ += text;
    Memoize();
  }

  void Global(std::string_view module, std::string_view name) {
    const auto [known, is_new] = globals_.try_emplace({module, name}, next_number_);
    if (!is_new) return Recall(known->second);
    bytes_ += fmt::format("c{}\n{}\n", module, name);
    Memoize();
  }

  // Around the items of a tuple, a dict or a list.
  void Mark() { Code('('); }
  void Tuple() { Code('t'); }

  void Integers(const std::vector<std::int64_t>& values) {
    Mark();
    for (std::int64_t value : values) Integer(value);
    Tuple();
  }

  void Size(const std::vector<std::int64_t>& values) {  // torch.Size
    Global("torch", "Size");
    Integers(values);
    Code('\x85');
    Code('R');
  }

  // An object without arguments; its state comes next, and Build().
  void NewObject(std::string_view module, std::string_view name) {
    Global(module, name);
    Code(')');
    Code('\x81');
  }
  void Build() { Code('b'); }

  // Entries of a dict come in groups of a thousand.
  void OpenDict() {
    Code('}');
    Mark();
    entries_ = 0;
  }
  void NextEntry() {
    if (entries_++ != 0 && entries_ % 1000 == 1) {
      Code('u');
      Mark();
    }
  }
  void CloseDict() { Code('u'); }
  // The state of an object: few entries, inside of a dict that is being filled.
  void OpenState() {
    Code('}');
    Mark();
  }
  void CloseState() { Code('u'); }

 private:
  void Little(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
  void Memoize() {
    Code('r');
    Little(next_number_++, 4);
  }
  void Recall(std::uint32_t number) {
    Code('j');
    Little(number, 4);
  }

  std::string bytes_;
  std::uint32_t next_number_ = 0;
  std::size_t entries_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::map<std::pair<std::string_view, std::string_view>, std::uint32_t> globals_;
};

class Writer {
 public:
  Writer(std::span<const WrittenEntry> entries, std::span<const std::string> files, TorchRelease release)
      : entries_(entries), files_(files), is_old_(release == TorchRelease::kUpTo23) {
    for (const WrittenEntry& entry : entries) keys_.push_back(KeyOf(entry.path));
  }

  std::string Write() {
    out_.NewObject(kMetadataModule, "Metadata");
    out_.OpenState();
    out_.Text("state_dict_metadata");
    WriteTensors();
    out_.Text("planner_data");
    WritePaths();
    out_.Text("storage_data");
    WritePlaces();
    if (!is_old_) {
      out_.Text("storage_meta");
      out_.None();
      out_.Text("version");
      out_.Text("1.0.0");
    }
    out_.CloseState();
    out_.Build();
    return out_.Finish();
  }

 private:
  void WriteTensors() {
    out_.OpenDict();
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      out_.NextEntry();
      out_.Text(keys_[e]);
      if (entries_[e].is_tensor) {
        WriteTensor(entries_[e]);
      } else {
        out_.NewObject(kMetadataModule, "BytesStorageMetadata");
      }
    }
    out_.CloseDict();
  }

  void WriteTensor(const WrittenEntry& entry) {
    out_.NewObject(kMetadataModule, "TensorStorageMetadata");
    out_.OpenState();
    out_.Text("properties");
    WriteProperties(entry.dtype);
    out_.Text("size");
    out_.Size(entry.shape);
    out_.Text("chunks");
    out_.Code(']');
    out_.Mark();
    for (const WrittenChunk& chunk : entry.chunks) {
      out_.NewObject(kMetadataModule, "ChunkStorageMetadata");
      out_.OpenState();
      out_.Text("offsets");
      out_.Size(chunk.offsets);
      out_.Text("sizes");
      out_.Size(chunk.sizes);
      out_.CloseState();
      out_.Build();
    }
    out_.Code('e');
    out_.CloseState();
    out_.Build();
  }

  // dtype, layout, requires_grad, memory format, pin_memory.
  void WriteProperties(DType dtype) {
    const std::string_view module = is_old_ ? kOldModule : kMetadataModule;
    out_.NewObject(module, "TensorProperties");
    out_.Mark();
    out_.Global("torch", Name(dtype));
    out_.Global("torch.serialization", "_get_layout");
    out_.Mark();
    out_.Text("torch.strided");
    out_.Tuple();
    out_.Code('R');
    out_.False();
    out_.Global(module, is_old_ ? "MEM_FORMAT_ENCODING" : "_MEM_FORMAT_ENCODING");
    out_.Mark();
    out_.Integer(0);
    out_.Tuple();
    out_.Code('R');
    out_.False();
    out_.Tuple();
    out_.Build();
  }

  void WritePaths() {
    out_.OpenDict();
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      out_.NextEntry();
      out_.Text(keys_[e]);
      out_.Mark();
      for (const auto& part : entries_[e].path) {
        if (const auto* text = std::get_if<std::string>(&part)) {
          out_.Text(*text);
        } else {
          out_.Integer(std::get<std::int64_t>(part));
        }
      }
      out_.Tuple();
    }
    out_.CloseDict();
  }

  void WritePlaces() {
    out_.OpenDict();
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      for (std::size_t c = 0; c < entries_[e].chunks.size(); ++c) {
        out_.NextEntry();
        WriteIndex(e, c);
        WritePlace(entries_[e].chunks[c]);
      }
    }
    out_.CloseDict();
  }

  void WriteIndex(std::size_t entry, std::size_t chunk) {
    out_.NewObject(kMetadataModule, "MetadataIndex");
    out_.OpenState();
    out_.Text("fqn");
    out_.Text(keys_[entry]);
    out_.Text("offset");
    if (entries_[entry].is_tensor) {
      out_.Size(entries_[entry].chunks[chunk].offsets);
    } else {
      out_.None();
    }
    out_.Text("index");
    if (entries_[entry].is_tensor) {
      out_.Integer(static_cast<std::int64_t>(chunk));
    } else {
      out_.None();
    }
    out_.CloseState();
    out_.Build();
  }

  void WritePlace(const WrittenChunk& chunk) {
    out_.NewObject(kStorageModule, "_StorageInfo");
    out_.OpenState();
    out_.Text("relative_path");
    out_.Text(files_[chunk.file]);
    out_.Text("offset");
    out_.Integer(static_cast<std::int64_t>(chunk.offset));
    out_.Text("length");
    out_.Integer(static_cast<std::int64_t>(chunk.bytes));
    out_.CloseState();
    out_.Build();
  }

  std::span<const WrittenEntry> entries_;
  std::span<const std::string> files_;
  const bool is_old_;
  std::vector<std::string> keys_;
  PickleStream out_;
};

}  // namespace

std::string KeyOf(const EntryPath& path) {
  std::string key;
  for (const auto& part : path) {
    if (!key.empty()) key += '.';
    if (const auto* text = std::get_if<std::string>(&part)) {
      key += *text;
    } else {
      key += std::to_string(std::get<std::int64_t>(part));
    }
  }
  return key;
}

std::string WriteMetadata(std::span<const WrittenEntry> entries, std::span<const std::string> files,
                          TorchRelease release) {
  return Writer(entries, files, release).Write();
}

}  // namespace ucp::dcp
