#include "runtime/manifest/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/Support/JSON.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <tuple>

#include "compiler/support/checksum.h"
#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "compiler/support/paths.h"
#include "compiler/support/version.h"

namespace ucp {
namespace {

// The version of a manifest. A program that does not know of parts must not take one for the whole, and one that does
// not know a version of digests must not find them wrong.
struct ManifestVersion {
  std::uint64_t number = 0;
  DigestVersion digests = kDigestVersion;
  bool is_part = false;
};
constexpr std::array<ManifestVersion, 4> kVersions = {{
    {1, DigestVersion::kLinear, false},
    {2, DigestVersion::kLinear, true},
    {3, DigestVersion::kKeyed, false},
    {4, DigestVersion::kKeyed, true},
}};
constexpr std::uint64_t kMostParts = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargestManifest = std::uint64_t{1} << 30;
constexpr int kMostDepth = 16;  // Of values under keys that this version does not know.

// Bytes that are not UTF-8 are replaced: most texts are, and finding that out is quick.
void AppendText(std::string& json, const std::string& text) {
  if (IsUtf8(text)) return AppendJson(json, text);
  AppendJson(json, llvm::json::fixUTF8(text));
}

// `, "key": "word"`, of dtypes and digests, which need no escapes.
void AppendWord(std::string& json, std::string_view key, std::string_view word) {
  json.append(", \"").append(key).append("\": \"").append(word).append("\"");
}

// A manifest has a line for each file and each state, and they are appended piece by piece: there are many.
template <typename Item>
void ComposeList(std::string& json, const char* key, const std::vector<Item>& items,
                 void (*compose)(std::string&, const Item&)) {
  json += fmt::format("  \"{}\": [", key);
  for (std::size_t i = 0; i < items.size(); ++i) {
    json += i == 0 ? "\n    " : ",\n    ";
    compose(json, items[i]);
  }
  json += items.empty() ? "]" : "\n  ]";
}

void ComposeFile(std::string& json, const ManifestFile& file) {
  json += R"({"path": )";
  AppendText(json, file.path);
  json.append(R"(, "bytes": )").append(std::to_string(file.bytes));
  AppendWord(json, "digest", file.digest);
  if (!file.parts.empty()) json += fmt::format(R"(, "parts": [{}])", fmt::join(file.parts, ", "));
  json += '}';
}

void ComposeState(std::string& json, const StateDigest& state) {
  json += R"({"tensor": )";
  AppendText(json, state.tensor);
  json += R"(, "state": )";
  AppendText(json, state.state);
  AppendWord(json, "dtype", Name(state.dtype));
  if (state.shape) json += fmt::format(R"(, "shape": [{}])", fmt::join(*state.shape, ", "));
  AppendWord(json, "digest", state.digest);
  if (!state.source_digest.empty()) {
    AppendWord(json, "source_dtype", Name(state.source_dtype));
    AppendWord(json, "source_digest", state.source_digest);
  }
  json += '}';
}

void ComposeLeftOut(std::string& json, const LeftOut& one) {
  const char* before = "{";
  for (const auto& [key, text] : {std::pair("file", &one.file), std::pair("path", &one.path),
                                  std::pair("object", &one.object), std::pair("calls", &one.calls)}) {
    json += fmt::format("{}\"{}\": ", before, key);
    AppendText(json, *text);
    before = ", ";
  }
  json += '}';
}

std::string Quoted(const std::string& text) {
  std::string json;
  AppendText(json, text);
  return json;
}

// The number is as wide as the largest: copies of a file must have one size.
std::string ComposePart(const ManifestPart& part) {
  if (part.number == 0) return "";
  return fmt::format("  \"part\": {:>{}},\n  \"parts\": {},\n  \"run\": {},\n", part.number,
                     std::to_string(part.count).size(), part.count, Quoted(part.run));
}

// Reads an object whose keys are known or passed over.
llvm::Error ReadKnown(JsonReader& json, const std::map<std::string, std::function<llvm::Error()>>& known) {
  return json.ReadObject([&](const std::string& key) -> llvm::Error {
    auto entry = known.find(key);
    return entry == known.end() ? json.SkipValue(kMostDepth) : entry->second();
  });
}

auto TextInto(JsonReader& json, std::string& text) {
  return [&json, &text]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(text, json.ReadText());
    return llvm::Error::success();
  };
}

// It is written again as it is, without escapes.
auto DigestInto(JsonReader& json, std::string& digest) {
  return [&json, &digest]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(digest, json.ReadText());
    const bool is_hex = digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    return is_hex ? llvm::Error::success() : Fail(ErrorCode::kBadData, "`{}` is not a digest", digest);
  };
}

auto DTypeInto(JsonReader& json, DType& dtype) {
  return [&json, &dtype]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(std::string name, json.ReadText());
    std::optional<DType> found = DTypeFromName(name);
    if (!found) return Fail(ErrorCode::kBadData, "`{}` is not a dtype", name);
    dtype = *found;
    return llvm::Error::success();
  };
}

auto SizeInto(JsonReader& json, std::uint64_t& size) {
  return [&json, &size]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(size, json.ReadSize());
    return llvm::Error::success();
  };
}

auto NumberInto(JsonReader& json, int& number) {
  return [&json, &number]() -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(const std::uint64_t size, json.ReadSize());
    if (size == 0 || size > kMostParts) return Fail(ErrorCode::kBadData, "{} is not a valid number of a part", size);
    number = static_cast<int>(size);
    return llvm::Error::success();
  };
}

auto NumbersInto(JsonReader& json, std::vector<int>& numbers) {
  return [&json, &numbers] { return json.ReadArray([&] { return NumberInto(json, numbers.emplace_back())(); }); };
}

auto ShapeInto(JsonReader& json, std::optional<std::vector<std::int64_t>>& shape) {
  return [&json, &shape]() -> llvm::Error {
    shape.emplace();
    return json.ReadArray([&]() -> llvm::Error {
      UCP_ASSIGN_OR_RETURN(const std::uint64_t length, json.ReadSize());
      shape->push_back(static_cast<std::int64_t>(length));
      return llvm::Error::success();
    });
  };
}

llvm::Error ReadFile(JsonReader& json, Manifest& manifest) {
  ManifestFile file;
  UCP_RETURN_IF_ERROR(ReadKnown(json, {{"path", TextInto(json, file.path)},
                                       {"bytes", SizeInto(json, file.bytes)},
                                       {"digest", DigestInto(json, file.digest)},
                                       {"parts", NumbersInto(json, file.parts)}}));
  if (!StaysInFolder(file.path)) {
    return Fail(ErrorCode::kBadData, "`{}` is not a path inside the checkpoint", file.path);
  }
  manifest.files.push_back(std::move(file));
  return llvm::Error::success();
}

llvm::Error ReadLeftOut(JsonReader& json, Manifest& manifest) {
  LeftOut one;
  UCP_RETURN_IF_ERROR(ReadKnown(json, {{"file", TextInto(json, one.file)},
                                       {"path", TextInto(json, one.path)},
                                       {"object", TextInto(json, one.object)},
                                       {"calls", TextInto(json, one.calls)}}));
  manifest.left_out.push_back(std::move(one));
  return llvm::Error::success();
}

llvm::Error ReadState(JsonReader& json, Manifest& manifest) {
  StateDigest state;
  UCP_RETURN_IF_ERROR(ReadKnown(json, {{"tensor", TextInto(json, state.tensor)},
                                       {"state", TextInto(json, state.state)},
                                       {"dtype", DTypeInto(json, state.dtype)},
                                       {"shape", ShapeInto(json, state.shape)},
                                       {"digest", DigestInto(json, state.digest)},
                                       {"source_dtype", DTypeInto(json, state.source_dtype)},
                                       {"source_digest", DigestInto(json, state.source_digest)}}));
  if (state.source_digest.empty()) state.source_dtype = state.dtype;
  manifest.states.push_back(std::move(state));
  return llvm::Error::success();
}

// A part is one of several, and so is each that a file is in.
llvm::Error CheckParts(const Manifest& manifest, std::uint64_t version, bool is_part) {
  const ManifestPart& part = manifest.part;
  if (is_part != (part.number > 0) || part.number > part.count || (is_part ? part.count < 2 : part.count > 0) ||
      is_part == part.run.empty()) {
    return Fail(ErrorCode::kBadData, "it is of version {}, of part {} of {}, and of the run `{}`", version, part.number,
                part.count, part.run);
  }
  for (const ManifestFile& file : manifest.files) {
    int last = 0;
    for (int number : file.parts) {
      if (number <= last || number > part.count) {
        return Fail(ErrorCode::kBadData, "`{}` is in part {}, behind {}, of {}", file.path, number, last, part.count);
      }
      last = number;
    }
  }
  return llvm::Error::success();
}

std::uint64_t VersionOf(const Manifest& manifest) {
  return std::ranges::find_if(kVersions,
                              [&](const ManifestVersion& version) {
                                return version.digests == manifest.digests &&
                                       version.is_part == (manifest.part.number > 0);
                              })
      ->number;
}

std::vector<int> FromOneOn(std::vector<int> parts) {
  for (int& part : parts) ++part;
  return parts;
}

// About as many as its text has, and seldom fewer: a long text that grows is copied again and again.
std::size_t RoughBytes(const Manifest& manifest) {
  constexpr std::size_t kAround = 160;  // The rest of a line, with one digest or two.
  std::size_t bytes = 4096;
  for (const ManifestFile& file : manifest.files) bytes += file.path.size() + kAround + 12 * file.parts.size();
  for (const StateDigest& state : manifest.states) {
    bytes += state.tensor.size() + state.state.size() + kAround + (state.shape ? 12 + 8 * state.shape->size() : 0);
  }
  return bytes;
}

}  // namespace

std::string ToolName() { return std::string("ucp ") + kVersion; }

std::string SourceIdentity(const Plan& plan) {
  std::vector<std::string> lines;
  for (const StoredFile& file : plan.source.files) {
    lines.push_back(fmt::format("{} {} {}\n", file.path, file.bytes, file.header_hash));
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  return ContentHash(text);
}

std::string RunOfParts(const std::string& plan_hash, int parts) {
  return ContentHash(fmt::format("{} {} in {} parts", ToolName(), plan_hash, parts));
}

Manifest MakeManifest(const Plan& plan, const std::string& plan_hash, ExecutionReport& report,
                      const TargetParts* parts) {
  Manifest manifest;
  manifest.tool = ToolName();
  manifest.format = plan.target_format;
  manifest.plan = plan_hash;
  manifest.source_format = plan.source_format;
  manifest.source = SourceIdentity(plan);
  manifest.left_out = plan.left_out;
  for (std::size_t i = 0; i < plan.target.files.size(); ++i) {
    manifest.files.push_back({plan.target.files[i].path, plan.target.files[i].bytes, report.file_digests[i], {}});
    if (parts != nullptr) manifest.files.back().parts = FromOneOn(parts->PartsWith(FileId(i)));
  }
  if (parts != nullptr) manifest.part = {1, parts->count, RunOfParts(plan_hash, parts->count)};
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const ManifestFile& a, const ManifestFile& b) { return a.path < b.path; });
  manifest.states = std::move(report.digests);
  return manifest;
}

std::string ComposeManifest(const Manifest& manifest) {
  std::string json;
  json.reserve(RoughBytes(manifest));
  json += fmt::format("{{\n  \"ucp_manifest\": {},\n", VersionOf(manifest));
  for (const auto& [key, text] :
       {std::pair("tool", &manifest.tool), std::pair("format", &manifest.format), std::pair("plan", &manifest.plan),
        std::pair("source_format", &manifest.source_format), std::pair("source", &manifest.source)}) {
    json += fmt::format("  \"{}\": {},\n", key, Quoted(*text));
  }
  json += ComposePart(manifest.part);
  if (!manifest.left_out.empty()) {
    ComposeList(json, "left_out", manifest.left_out, &ComposeLeftOut);
    json += ",\n";
  }
  ComposeList(json, "files", manifest.files, &ComposeFile);
  json += ",\n";
  ComposeList(json, "states", manifest.states, &ComposeState);
  return json + "\n}\n";
}

llvm::Expected<Manifest> ParseManifest(std::string_view text) {
  if (!IsUtf8(text)) return Fail(ErrorCode::kBadData, "it is not UTF-8");
  JsonReader json(text);
  Manifest manifest;
  std::uint64_t version = 0;
  auto list = [&](llvm::Error (*read)(JsonReader&, Manifest&)) {
    return [&json, &manifest, read] { return json.ReadArray([&] { return read(json, manifest); }); };
  };
  UCP_RETURN_IF_ERROR(ReadKnown(json, {{"ucp_manifest", SizeInto(json, version)},
                                       {"tool", TextInto(json, manifest.tool)},
                                       {"format", TextInto(json, manifest.format)},
                                       {"plan", TextInto(json, manifest.plan)},
                                       {"source_format", TextInto(json, manifest.source_format)},
                                       {"source", TextInto(json, manifest.source)},
                                       {"part", NumberInto(json, manifest.part.number)},
                                       {"parts", NumberInto(json, manifest.part.count)},
                                       {"run", TextInto(json, manifest.part.run)},
                                       {"left_out", list(&ReadLeftOut)},
                                       {"files", list(&ReadFile)},
                                       {"states", list(&ReadState)}}));
  UCP_RETURN_IF_ERROR(json.ReadEnd());
  const auto known = std::ranges::find(kVersions, version, &ManifestVersion::number);
  if (known == kVersions.end()) {
    return Fail(ErrorCode::kBadData, "it is a manifest of version {}, and this program knows versions {} to {}",
                version, kVersions.front().number, kVersions.back().number);
  }
  manifest.digests = known->digests;
  UCP_RETURN_IF_ERROR(CheckParts(manifest, version, known->is_part));
  return manifest;
}

llvm::Expected<std::optional<Manifest>> ReadManifest(ReadableFileSystem& files, const std::string& root) {
  const std::string path = JoinPath(root, kManifestName);
  UCP_ASSIGN_OR_RETURN(FileStatus status, files.Status(path));
  if (status.kind == PathKind::kMissing && !status.is_link) return std::nullopt;
  if (status.kind != PathKind::kFile) return Fail(ErrorCode::kBadData, "`{}` is not a regular file", path);
  UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files, path, kLargestManifest));
  auto manifest = ParseManifest(text);
  if (!manifest) return AddContext(manifest.takeError(), fmt::format("`{}`", path));
  return std::optional(std::move(*manifest));
}

}  // namespace ucp
