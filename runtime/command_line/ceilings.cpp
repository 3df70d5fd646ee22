#include "runtime/command_line/ceilings.h"

#include <llvm/Support/JSON.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "compiler/support/error.h"
#include "compiler/support/json_text.h"
#include "runtime/storage/storage_speed.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;  // Of the file; it has a few hundred.
constexpr int kMostDepth = 8;

llvm::Error NotFromBench(const std::string& path, const std::string& why) {
  return Fail(ErrorCode::kUsage, "`{}` is not the JSON report of `ucprun bench`: {}", path, why);
}

// Bytes per second of one of the things that were measured.
std::optional<double> Rate(const llvm::json::Object& report, std::string_view of) {
  const llvm::json::Array* measured = report.getArray("measured");
  if (measured == nullptr) return std::nullopt;
  for (const llvm::json::Value& entry : *measured) {
    const llvm::json::Object* speed = entry.getAsObject();
    if (speed == nullptr || speed->getString("of") != llvm::StringRef(of)) continue;
    const std::optional<std::int64_t> bytes = speed->getInteger("bytes");
    const std::optional<double> seconds = speed->getNumber("seconds");
    if (bytes && seconds && *bytes > 0 && *seconds > 0) return static_cast<double>(*bytes) / *seconds;
  }
  return std::nullopt;
}

}  // namespace

llvm::Expected<Ceilings> ReadCeilings(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files, path, kMostBytes));
  // The next reader calls itself for what is nested.
  if (llvm::Error odd = JsonReader(text).SkipValue(kMostDepth)) {
    return NotFromBench(path, "it is not valid JSON: " + llvm::toString(std::move(odd)));
  }
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(text);
  if (!json) {
    llvm::consumeError(json.takeError());
    return NotFromBench(path, "it is not valid JSON");
  }
  const llvm::json::Object* report = json->getAsObject();
  if (report == nullptr) return NotFromBench(path, "it is not an object");
  Ceilings ceilings;
  ceilings.folder = report->getString("folder").value_or("").str();
  for (const auto& [of, rate] :
       {std::pair(kWriteWithSync, &ceilings.write), std::pair(kReadFromCache, &ceilings.read_from_cache),
        std::pair(kReadFromStorage, &ceilings.read_from_storage)}) {
    const std::optional<double> measured = Rate(*report, of);
    // Some file systems keep what they should forget, and so always read from memory.
    if (!measured && of != kReadFromStorage) return NotFromBench(path, fmt::format("it has no `{}`", of));
    *rate = measured.value_or(ceilings.read_from_cache);
  }
  return ceilings;
}

double SecondsAt(const Ceilings& ceilings, const MovedBytes& moved) {
  const std::uint64_t from_storage = std::min(moved.read, moved.read_from_storage);
  return static_cast<double>(from_storage) / ceilings.read_from_storage +
         static_cast<double>(moved.read - from_storage) / ceilings.read_from_cache +
         static_cast<double>(moved.written) / ceilings.write;
}

std::uint64_t BytesFromStorage() {
  std::ifstream counts("/proc/self/io");
  for (std::string line; std::getline(counts, line);) {
    if (!line.starts_with("read_bytes:")) continue;
    std::istringstream number(line.substr(11));
    std::uint64_t bytes = 0;
    number >> bytes;
    return bytes;
  }
  return 0;
}

}  // namespace ucp
