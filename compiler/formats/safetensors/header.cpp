#include "compiler/formats/safetensors/header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "compiler/formats/safetensors/dtype_codes.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"

namespace ucp::safetensors {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

llvm::Error ReadMetadata(JsonReader& json, Header& header) {
  return json.ReadObject([&](const std::string& key) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(header.metadata[key], json.ReadText());
    return llvm::Error::success();
  });
}

llvm::Expected<DType> ReadDType(JsonReader& json) {
  UCP_ASSIGN_OR_RETURN(std::string code, json.ReadText());
  if (std::optional<DType> dtype = DTypeOfCode(code)) return *dtype;
  if (IsCode(code)) return Fail(ErrorCode::kUnsupported, "its type `{}` is not one that this version holds", code);
  return Fail(ErrorCode::kBadData, "its type `{}` is none that the format has", code);
}

llvm::Expected<std::vector<std::uint64_t>> ReadSizes(JsonReader& json) {
  std::vector<std::uint64_t> sizes;
  UCP_RETURN_IF_ERROR(json.ReadArray([&]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(std::uint64_t size, json.ReadSize());
    sizes.push_back(size);
    return llvm::Error::success();
  }));
  return sizes;
}

llvm::Expected<HeaderEntry> ReadEntry(JsonReader& json) {
  HeaderEntry entry;
  int fields = 0;
  UCP_RETURN_IF_ERROR(json.ReadObject([&](const std::string& key) -> llvm::Error {
    ++fields;
    if (key == "dtype") {
      UCP_ASSIGN_OR_RETURN(entry.dtype, ReadDType(json));
      return llvm::Error::success();
    }
    if (key != "shape" && key != "data_offsets") {
      return Fail(ErrorCode::kBadData, "it has the field `{}`, which the format does not", key);
    }
    UCP_ASSIGN_OR_RETURN(std::vector<std::uint64_t> sizes, ReadSizes(json));
    if (key == "shape") {
      entry.shape.assign(sizes.begin(), sizes.end());
      return llvm::Error::success();
    }
    if (sizes.size() != 2) return Fail(ErrorCode::kBadData, "it has {} `data_offsets`, and not two", sizes.size());
    entry.begin = sizes[0];
    entry.end = sizes[1];
    return llvm::Error::success();
  }));
  if (fields == 3) return entry;
  return Fail(ErrorCode::kBadData, "it lacks one of `dtype`, `shape` and `data_offsets`");
}

std::optional<std::int64_t> BytesOf(const HeaderEntry& entry) {
  std::optional<std::int64_t> bytes = ItemBytes(entry.dtype);
  for (std::int64_t length : entry.shape) bytes = bytes ? CheckedMultiply(*bytes, length) : bytes;
  return bytes;
}

llvm::Error CheckEntries(const Header& header, std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  for (const HeaderEntry& entry : header.entries) {
    std::optional<std::int64_t> bytes = BytesOf(entry);
    bool fits = bytes && entry.begin <= entry.end && static_cast<std::uint64_t>(*bytes) == entry.end - entry.begin;
    if (!fits) {
      return Fail(ErrorCode::kBadData, "tensor `{}` is [{}] of {} and lies from byte {} to {}", entry.name,
                  fmt::join(entry.shape, ", "), Name(entry.dtype), entry.begin, entry.end);
    }
    if (entry.begin != covered) {
      return Fail(ErrorCode::kBadData, "tensor `{}` begins at byte {}, and what is before it ends at {}", entry.name,
                  entry.begin, covered);
    }
    covered = entry.end;
  }
  if (covered == data_bytes) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "its tensors have {} bytes, and {} follow it; was the file written to its end?",
              covered, data_bytes);
}

template <typename Number>
void AppendNumber(std::string& json, std::string_view before, Number number) {
  const fmt::format_int digits(number);
  json.append(before).append(digits.data(), digits.size());
}

}  // namespace

llvm::Expected<Header> ParseHeader(std::string_view json, std::uint64_t data_bytes) {
  if (!json.starts_with('{')) return Fail(ErrorCode::kBadData, "it does not begin with `{{`");
  if (!IsUtf8(json)) return Fail(ErrorCode::kBadData, "it is not UTF-8");
  Header header;
  JsonReader reader(json);
  UCP_RETURN_IF_ERROR(reader.ReadObject([&](const std::string& name) -> llvm::Error {
    if (name == kMetadataKey) return AddContext(ReadMetadata(reader, header), "`__metadata__`");
    llvm::Expected<HeaderEntry> entry = ReadEntry(reader);
    if (!entry) return AddContext(entry.takeError(), fmt::format("tensor `{}`", name));
    entry->name = name;
    header.entries.push_back(std::move(*entry));
    return llvm::Error::success();
  }));
  UCP_RETURN_IF_ERROR(reader.ReadEnd());
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  UCP_RETURN_IF_ERROR(CheckEntries(header, data_bytes));
  return header;
}

void Arrange(Header& header) {
  const auto before = [](const HeaderEntry& a, const HeaderEntry& b) {
    int rank_a = RankOf(a.dtype);
    int rank_b = RankOf(b.dtype);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  };
  if (!std::is_sorted(header.entries.begin(), header.entries.end(), before)) {
    std::sort(header.entries.begin(), header.entries.end(), before);
  }
  std::uint64_t end = 0;
  for (HeaderEntry& entry : header.entries) {
    entry.begin = end;
    end += static_cast<std::uint64_t>(*BytesOf(entry));
    entry.end = end;
  }
}

std::string ComposeHeader(const Header& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    json += fmt::format("{}:{{", QuoteJson(kMetadataKey));
    for (const auto& [key, value] : header.metadata) {
      json += fmt::format("{}{}:{}", json.ends_with('{') ? "" : ",", QuoteJson(key), QuoteJson(value));
    }
    json += "}";
  }
  for (const HeaderEntry& entry : header.entries) {
    if (json.size() > 1) json += ',';
    AppendJson(json, entry.name);
    json.append(":{\"dtype\":\"").append(*CodeOf(entry.dtype)).append("\",\"shape\":[");
    for (std::size_t d = 0; d < entry.shape.size(); ++d) AppendNumber(json, d == 0 ? "" : ",", entry.shape[d]);
    AppendNumber(json, "],\"data_offsets\":[", entry.begin);
    AppendNumber(json, ",", entry.end);
    json += "]}";
  }
  json += "}";
  const std::uint64_t over = (kLengthBytes + json.size()) % kElementsAlignment;
  json.append((kElementsAlignment - over) % kElementsAlignment, ' ');
  std::string bytes;
  for (unsigned i = 0; i < kLengthBytes; ++i) bytes += static_cast<char>(json.size() >> (8 * i));
  return bytes + json;
}

llvm::Error ReadHeaderBytes(const ReadableFile& file) {
  std::array<std::byte, kLengthBytes> length_bytes{};
  UCP_RETURN_IF_ERROR(file.ReadAt(0, length_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes.size(); i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(length_bytes[i]);
  if (length > std::min(kMostHeaderBytes, file.bytes() - length_bytes.size())) {
    return Fail(ErrorCode::kBadData, "its header is too long");
  }
  std::string json(length, '\0');
  return file.ReadAt(length_bytes.size(), std::as_writable_bytes(std::span(json)));
}

}  // namespace ucp::safetensors
