#include "compiler/command_line/precious_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/companions.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::size_t kBytesToKnow = std::size_t{64} << 10;  // Comments at the beginning of a spec may be long.

struct Beginning {
  std::string bytes;
  std::uint64_t file_bytes = 0;
};

llvm::Expected<Beginning> ReadBeginning(const std::string& path, std::size_t most) {
  UCP_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, RealFiles().OpenForReading(path));
  Beginning begin{std::string(std::min<std::uint64_t>(most, file->bytes()), '\0'), file->bytes()};
  UCP_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(begin.bytes))));
  return begin;
}

bool IsPickle(std::string_view bytes) {
  constexpr char kProtocol = '\x80';
  return bytes.size() > 1 && bytes[0] == kProtocol && bytes[1] >= 2 && bytes[1] <= 5;
}

// The length of a JSON header, and that.
bool IsSafetensors(const Beginning& begin) {
  std::uint64_t header = 0;
  if (begin.bytes.size() <= sizeof(header)) return false;
  std::memcpy(&header, begin.bytes.data(), sizeof(header));
  return header <= begin.file_bytes - sizeof(header) && begin.bytes[sizeof(header)] == '{';
}

// The first word that is not in a comment is `ucp`, and a number follows.
bool IsSpec(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  auto skip_blanks = [&] { text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size())); };
  skip_blanks();
  while (text.starts_with("//")) {
    text.remove_prefix(std::min(text.find('\n'), text.size()));
    skip_blanks();
  }
  if (!text.starts_with("ucp")) return false;
  text.remove_prefix(3);
  const bool is_word = !text.empty() && kBlanks.find(text.front()) != std::string_view::npos;
  skip_blanks();
  return is_word && !text.empty() && text.front() >= '0' && text.front() <= '9';
}

bool IsNameInCheckpoint(const std::string& name) {
  constexpr std::array<std::string_view, 7> kEndings = {".pt",   ".pth",    ".bin",       ".safetensors",
                                                        ".ckpt", ".distcp", ".index.json"};
  const bool ends = std::ranges::any_of(kEndings, [&](std::string_view end) { return name.ends_with(end); });
  return ends || BelongsBesideCheckpoint(name);
}

bool HasPointer(const std::filesystem::path& folder) {
  constexpr std::array kPointers = {"latest", "latest_universal", "latest_checkpointed_iteration.txt",
                                    "ucp_manifest.json"};
  std::error_code ignored;
  return std::ranges::any_of(
      kPointers, [&](const char* name) { return std::filesystem::is_regular_file(folder / name, ignored); });
}

// Names of any format's files, without a look at what is in them.
bool HoldsCheckpoint(const std::filesystem::path& folder) {
  llvm::Expected<std::vector<DirectoryEntry>> entries = RealFiles().List(folder.string());
  if (!entries) {
    llvm::consumeError(entries.takeError());
    return false;
  }
  return std::ranges::any_of(*entries, [](const DirectoryEntry& entry) {
    return entry.name.ends_with("_states.pt") || entry.name == "model.safetensors" ||
           entry.name == "model.safetensors.index.json";
  });
}

// The checkpoint, or the root of one, that a file lies in; empty: in none. A parameter's file of a universal one is
// three folders below the one with the states.
std::string CheckpointAround(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (HasPointer(folder)) return folder.string();
  for (int level = 0; level < 3 && folder.has_relative_path(); ++level) {
    if (HoldsCheckpoint(folder)) return folder.string();
    folder = folder.parent_path();
  }
  return "";
}

}  // namespace

llvm::Expected<std::string> WhyPrecious(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const Beginning begin, ReadBeginning(path, kBytesToKnow));
  const std::string name = std::filesystem::path(path).filename().string();
  if (begin.bytes.starts_with("PK\x03\x04")) return "a torch archive, or another zip archive";
  if (IsPickle(begin.bytes)) return "a pickle";
  if (IsSafetensors(begin)) return "a safetensors file";
  if (name.ends_with(".ucp") || IsSpec(begin.bytes)) return "a spec";
  if (IsNameInCheckpoint(name)) return "named as files of checkpoints are";
  const std::string checkpoint = CheckpointAround(path);
  return checkpoint.empty() ? "" : fmt::format("a file in the checkpoint `{}`", checkpoint);
}

llvm::Expected<bool> BeginsWith(const std::string& path, std::string_view bytes) {
  if (bytes.empty()) return false;
  UCP_ASSIGN_OR_RETURN(const Beginning begin, ReadBeginning(path, bytes.size()));
  return begin.bytes == bytes;
}

}  // namespace ucp
